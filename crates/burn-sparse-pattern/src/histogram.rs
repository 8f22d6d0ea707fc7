/// Histogram of the scores of a layer. Allows finding a threshold over many layers without holding all
/// of their scores in memory at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u32>,
    total: usize,
}

impl Histogram {
    /// Number of buckets. A bucket is the highest 16 of the 31 bits of a positive float, which makes it
    /// less than one percent wide at any scale.
    pub(crate) const BUCKETS: usize = 1 << 16;

    /// Creates the histogram of non-negative scores.
    pub fn of(scores: &[f32]) -> Self {
        let mut counts = vec![0_u32; Self::BUCKETS];
        for score in scores {
            // Masks out the sign, so that -0.0 counts as 0.0.
            counts[(score.to_bits() & 0x7fff_ffff) as usize >> 15] += 1;
        }
        Self { counts, total: scores.len() }
    }

    /// Returns the number of scores.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns the share of scores below a position, counted in buckets; a fraction of a bucket counts
    /// as that fraction of its scores.
    pub(crate) fn share_below(&self, position: f64) -> f64 {
        let whole = (position as usize).min(Self::BUCKETS);
        let below: u64 = self.counts[..whole].iter().map(|&count| u64::from(count)).sum();
        let part = self
            .counts
            .get(whole)
            .map_or(0.0, |&count| f64::from(count) * (position - whole as f64));
        if self.total == 0 { 0.0 } else { (below as f64 + part) / self.total as f64 }
    }
}
