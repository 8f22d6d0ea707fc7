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

/// Ranks whose gradients do not belong to one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "rank {rank} has {there} gradients to average, rank 0 {first}: their models differ, or they have packed other weights, as \
     other `Costs` let them"
)]
#[non_exhaustive]
pub struct UnlikeModels {
    /// Lowest rank that differs from rank 0.
    pub rank: usize,
    /// Number of its gradients.
    pub there: u64,
    /// Number of gradients on rank 0.
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
    /// The MPI library allows calls from the main thread only.
    #[error(
        "this MPI library supports {found} only: its calls must come from any thread, one at a time"
    )]
    Threads {
        /// What it supports.
        found: &'static str,
    },
}
