use std::time::Instant;

/// Message counts of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Traffic {
    /// Bytes that this rank has passed to be summed. How many are sent depends on the communicator's algorithm: in a ring of
    /// `n` ranks, each sends `2 (n - 1) / n` times as many.
    pub bytes: u64,
    /// Seconds spent in calls of the communicator: transfers, sums, and waiting for slower ranks.
    pub seconds: f64,
}

impl Traffic {
    pub(super) fn add(&mut self, bytes: usize, since: Instant) {
        self.bytes += bytes as u64;
        self.seconds += since.elapsed().as_secs_f64();
    }
}
