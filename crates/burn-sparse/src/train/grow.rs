use burn_sparse_pattern::{Pattern, PatternError, Projection, RowOrder, Scores, Search, Start};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A mask in which weights may move.
pub(super) struct Moving<'a> {
    pub(super) pattern: &'a Pattern,
    pub(super) order: &'a RowOrder,
    pub(super) rows: usize,
    pub(super) cols: usize,
    /// What is kept of it is ranked by this, as a matrix: 0 for what is dropped, more for what is kept.
    pub(super) scores: &'a [f32],
    /// What grows is ranked by this, as a matrix: finite and not negative.
    pub(super) growth: &'a [f32],
}

/// The rank of a weight that survives: more than the largest block, of 256 x 256, has weights to grow, which
/// rank at most one each.
const SURVIVES: f32 = 131_072.0;

impl Moving<'_> {
    /// Drops `share` of what a mask of this sparsity keeps, lowest scores first, and lets as much grow,
    /// highest growth first: dropped and grown inside the pattern, rows in their groups (Evci et al.,
    /// "RigL", 2020, section 3). Where the share is less than the pattern can drop, nothing moves.
    pub(super) fn project(&self, sparsity: f64, share: f64) -> Result<Projection, PatternError> {
        let search = Search { start: Start::Fixed(self.order), ..Search::default() };
        let project = |scores: &[f32], sparsity| {
            self.pattern.project(&Scores::new(self.rows, self.cols, scores)?, sparsity, &search)
        };
        let survivors = match project(self.scores, 1.0 - (1.0 - sparsity) * (1.0 - share)) {
            // A block of one kept weight cannot drop a share of it: nothing moves.
            Err(PatternError::Degenerate { kept: 0, .. }) => project(self.scores, sparsity)?,
            found => found?,
        };
        let survivors = survivors.mask.to_bytes();
        let most = self.growth.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        let rank = |(&growth, survives): (&f32, u8)| {
            if survives == 1 { SURVIVES } else { growth / most }
        };
        let ranks: Vec<f32> = self.growth.iter().zip(survivors).map(rank).collect();
        project(&ranks, sparsity)
    }
}

/// Ranks by chance, the same on every machine.
pub(super) fn chance(count: usize, seed: u64, step: usize, name: &str) -> Vec<f32> {
    // FNV-1a: every weight has a stream of its own.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ hash);
    random.set_stream(step as u64);
    (0..count).map(|_| random.random::<f32>()).collect()
}
