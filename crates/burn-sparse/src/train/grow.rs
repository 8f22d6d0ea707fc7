use burn_sparse_pattern::{Pattern, PatternError, Projection, RowOrder, Scores, Search, Start};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Mask update of drop-and-grow.
pub(super) struct DropAndGrow<'a> {
    pub(super) pattern: &'a Pattern,
    pub(super) order: &'a RowOrder,
    pub(super) rows: usize,
    pub(super) cols: usize,
    /// Scores that rank kept weights, as a matrix: 0 for dropped weights, positive for kept ones.
    pub(super) scores: &'a [f32],
    /// Scores that rank the weights that may grow, as a matrix: finite and non-negative.
    pub(super) growth: &'a [f32],
}

/// Score of a surviving weight. It exceeds the sum over the largest block, 256 x 256 weights with scores of at most 1.
const SURVIVES: f32 = 131_072.0;

impl DropAndGrow<'_> {
    /// Drops `share` of the kept weights at this sparsity, lowest scores first, and grows as many, highest growth score first
    /// (Evci et al., "RigL", 2020, section 3). The mask satisfies the pattern, and rows stay in their groups. Nothing changes
    /// if the share is less than the smallest unit of the pattern.
    pub(super) fn project(&self, sparsity: f64, share: f64) -> Result<Projection, PatternError> {
        let search = Search { start: Start::Fixed(self.order), ..Search::default() };
        let project = |scores: &[f32], sparsity| {
            self.pattern.project(&Scores::new(self.rows, self.cols, scores)?, sparsity, &search)
        };
        let survivors = match project(self.scores, 1.0 - (1.0 - sparsity) * (1.0 - share)) {
            // A block that keeps one weight cannot drop a share of it.
            Err(PatternError::Degenerate { kept: 0, .. }) => project(self.scores, sparsity)?,
            found => found?,
        };
        let survivors = survivors.mask.to_bytes();
        let highest = self.growth.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        let rank = |(&growth, survives): (&f32, u8)| {
            if survives == 1 { SURVIVES } else { growth / highest }
        };
        let ranks: Vec<f32> = self.growth.iter().zip(survivors).map(rank).collect();
        project(&ranks, sparsity)
    }
}

/// Returns random scores, reproducible on every machine.
pub(super) fn random_scores(count: usize, seed: u64, step: usize, name: &str) -> Vec<f32> {
    // FNV-1a of the name: every weight has its own stream.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ hash);
    random.set_stream(step as u64);
    (0..count).map(|_| random.random::<f32>()).collect()
}
