use std::sync::Arc;

use burn_sparse::distributed::{Communicator, Mpi, Ranks};

use super::count;
use crate::failure::{Failure, Reported};
use crate::output;

/// This process among those that a launcher has started.
pub(crate) struct Launched {
    ranks: Ranks,
    /// `None` without a launcher.
    mpi: Option<Arc<Mpi>>,
}

impl Launched {
    /// Joins the other ranks, and takes this rank's share of the machine's cores, unless `RAYON_NUM_THREADS` sets its
    /// number of threads.
    pub(crate) fn join() -> Result<Self, Failure> {
        if count() == 1 {
            return Ok(Self { ranks: Ranks::alone(), mpi: None });
        }
        let mpi = Arc::new(Mpi::init()?);
        if mpi.size() != count() {
            let reason = "the launcher belongs to another MPI library than this build";
            return Err(format!(
                "started as one of {} ranks, but MPI finds {}: {reason}",
                count(),
                mpi.size()
            )
            .into());
        }
        let threads = mpi.threads();
        if std::env::var_os("RAYON_NUM_THREADS").is_none() {
            rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
        }
        let ranks = Ranks::shared(mpi.clone());
        if ranks.is_first() {
            // Set by Open MPI if it has bound ranks to cores, as it does by default.
            let bound = std::env::var_os("OMPI_MCA_orte_bound_at_launch").is_some();
            let hint =
                if bound { ", bound by mpirun: --bind-to none shares all cores" } else { "" };
            let (ranks, threads) = (ranks.size(), rayon::current_num_threads());
            output::note(&format!("{ranks} ranks; threads on rank 0: {threads}{hint}"));
        }
        Ok(Self { ranks, mpi: Some(mpi) })
    }

    pub(crate) fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// Returns the outcome. An error is printed once for all ranks that have it, and ends those that do not.
    pub(crate) fn leave(self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        let (Some(mpi), Err(error)) = (&self.mpi, &outcome) else { return outcome };
        // Before any rank ends, because the launcher may then end the others.
        if self.ranks.is_first() && !output::is_closed_pipe(error.as_ref()) {
            output::note(&format!("error: {error}"));
        }
        if !mpi.have_all_failed() {
            if !self.ranks.is_first() {
                output::note(&format!("error: rank {}: {error}", self.ranks.rank()));
            }
            mpi.abort();
        }
        Err(Reported.into())
    }
}
