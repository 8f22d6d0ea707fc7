use std::fmt::Debug;

/// Processes that send each other messages, as MPI's communicators.
///
/// All ranks make the same calls in the same order, and each call waits for all of them. A failure of the connection ends the
/// process: nothing can go on without the others.
pub trait Communicator: Debug + Send + Sync {
    /// Returns the number of this process, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of processes.
    fn size(&self) -> usize;

    /// Replaces values by their sums over all ranks, which have the same bits on every rank. All ranks give equally many.
    fn sum(&self, values: &mut [f32]);

    /// Replaces bytes by those of rank 0. All ranks give equally many.
    fn broadcast(&self, bytes: &mut [u8]);

    /// Returns the bytes of all ranks, by rank. Ranks may give different numbers of bytes.
    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>>;
}
