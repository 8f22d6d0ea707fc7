//! Ranks of a training run that `mpirun`, `srun`, or another launcher has started.

#[cfg_attr(feature = "mpi", path = "with_mpi.rs")]
#[cfg_attr(not(feature = "mpi"), path = "without_mpi.rs")]
mod launched;
mod launcher;

pub(crate) use launched::Launched;
use launcher::count;
pub(crate) use launcher::rank;
