/// Failure of a command, printed once.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// Failure that has been printed.
#[cfg(feature = "mpi")]
#[derive(Debug, thiserror::Error)]
#[error("printed above")]
pub(crate) struct Reported;
