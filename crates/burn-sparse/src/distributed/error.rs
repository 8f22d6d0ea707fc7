use thiserror::Error;

/// Failure of another rank.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("rank {rank}: {reason}")]
pub struct RankFailed {
    /// Rank that failed; the lowest of several.
    pub rank: usize,
    /// Its error.
    pub reason: String,
}

/// Ranks whose models have different parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "rank {rank} has other parameters than rank 0 ({there} and {first} values): their models differ, or they have packed \
     other weights"
)]
#[non_exhaustive]
pub struct UnlikeModels {
    /// Lowest rank that differs from rank 0.
    pub rank: usize,
    /// Number of values on that rank.
    pub there: u64,
    /// Number of values on rank 0.
    pub first: u64,
}

/// MPI cannot be used.
#[cfg(feature = "mpi")]
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MpiError {
    /// MPI has been initialized before.
    #[error("MPI has been initialized already: `Mpi::init` is called once in a process")]
    Initialized,
    /// The MPI library does not support calls from several threads in turn.
    #[error(
        "this MPI library supports {found} only; burn-sparse calls it from any thread, one at a time (MPI_THREAD_SERIALIZED)"
    )]
    Threads {
        /// Supported level of threading.
        found: &'static str,
    },
}
