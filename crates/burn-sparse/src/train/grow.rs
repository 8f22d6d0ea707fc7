use burn_sparse_pattern::{
    Mask, Pattern, PatternError, Projection, RowOrder, Scores, Search, Start,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A mask in which weights may move.
pub(super) struct Moving<'a> {
    pub(super) pattern: &'a Pattern,
    pub(super) order: &'a RowOrder,
    /// The mask in force; it has dropped something.
    pub(super) mask: &'a Mask,
    /// What is kept of it is ranked by this, as a matrix.
    pub(super) scores: &'a [f32],
    /// What grows is ranked by this, as a matrix: finite and not negative.
    pub(super) growth: &'a [f32],
}

impl Moving<'_> {
    /// Drops `share` of what a mask of this sparsity keeps, lowest scores first, and lets as much grow,
    /// highest growth first: dropped and grown inside the pattern, rows in their groups (Evci et al.,
    /// "RigL", 2020, section 3). Where the share is less than the pattern can drop, nothing moves.
    pub(super) fn project(&self, sparsity: f64, share: f64) -> Result<Projection, PatternError> {
        let (rows, cols) = (self.mask.rows(), self.mask.cols());
        let search = Search { start: Start::Fixed(self.order), ..Search::default() };
        let project = |scores: &[f32], sparsity| {
            self.pattern.project(&Scores::new(rows, cols, scores)?, sparsity, &search)
        };
        let keep = self.mask.to_bytes();
        // What is kept ranks above what is dropped even where it is zero, as what has just grown may be.
        let kept = |(&score, &keep): (&f32, &u8)| match keep {
            0 => 0.0,
            _ => score.max(f32::MIN_POSITIVE),
        };
        let kept: Vec<f32> = self.scores.iter().zip(&keep).map(kept).collect();
        let survivors = match project(&kept, 1.0 - (1.0 - sparsity) * (1.0 - share)) {
            Ok(found) => found.mask.to_bytes(),
            // A block of one kept weight cannot drop a share of it.
            Err(PatternError::Degenerate { kept: 0, .. }) => keep,
            Err(error) => return Err(error),
        };
        let most = self.growth.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        // In any vector or block the survivors outweigh whatever grows, which is at most one each.
        let rank = |(&growth, survives): (&f32, u8)| {
            if survives == 1 { 4.0 } else { growth / most }
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
