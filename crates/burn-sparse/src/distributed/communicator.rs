use std::fmt::Debug;

/// A group of processes that exchange messages, like an MPI communicator.
///
/// All ranks make the same calls in the same order, and each call waits for all of them. A failure of the connection ends the
/// process, which cannot continue without the others.
pub trait Communicator: Debug + Send + Sync {
    /// Returns the number of this process, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of processes.
    fn size(&self) -> usize;

    /// Replaces values by their sums over all ranks, which have the same bits on every rank. Every rank must pass the
    /// same number of values.
    fn sum(&self, values: &mut [f32]);

    /// Replaces bytes by those of rank 0. Every rank must pass the same number of bytes.
    fn broadcast(&self, bytes: &mut [u8]);

    /// Returns the bytes of all ranks, by rank. Ranks may pass different numbers of bytes.
    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>>;
}
