/// How many scores lie where: what is needed of a layer to find a threshold over many, without holding
/// their scores at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u32>,
    total: usize,
}

impl Histogram {
    /// Buckets by the highest 16 of a positive float's 31 bits: less than one percent wide, whatever the
    /// scale.
    pub(crate) const BUCKETS: usize = 1 << 16;

    /// Counts non-negative scores.
    pub fn of(scores: &[f32]) -> Self {
        let mut counts = vec![0_u32; Self::BUCKETS];
        for score in scores {
            // Without its sign, so that -0.0 is the zero it is.
            counts[(score.to_bits() & 0x7fff_ffff) as usize >> 15] += 1;
        }
        Self { counts, total: scores.len() }
    }

    /// The number of scores.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The share of scores below a position, counted in buckets; part of a bucket is part of its scores.
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
