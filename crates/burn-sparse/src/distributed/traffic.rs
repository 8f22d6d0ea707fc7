use std::time::Instant;

/// Messages of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Traffic {
    /// Bytes that this rank has given to be summed. How many of them travel how often is the communicator's choice: with a
    /// ring of `n` ranks, each sends `2 (n - 1) / n` times as many.
    pub bytes: u64,
    /// Seconds in calls of the communicator: transfers, sums, and waiting for slower ranks.
    pub seconds: f64,
}

impl Traffic {
    pub(super) fn add(&mut self, bytes: usize, since: Instant) {
        self.bytes += bytes as u64;
        self.seconds += since.elapsed().as_secs_f64();
    }
}
