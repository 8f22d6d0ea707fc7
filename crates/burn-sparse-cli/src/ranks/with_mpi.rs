use std::sync::Arc;

use burn_sparse::distributed::{Mpi, Ranks};

use super::{count, rank};
use crate::failure::{Failure, Reported};
use crate::output;

/// This process among those that a launcher has started.
pub(crate) struct Launched {
    ranks: Ranks,
    /// `None` without a launcher.
    mpi: Option<Arc<Mpi>>,
}

impl Launched {
    /// Joins the other ranks, and takes this rank's share of the machine's cores, unless `RAYON_NUM_THREADS` says how many
    /// threads it shall have.
    pub(crate) fn join() -> Result<Self, Failure> {
        if count() == 1 {
            return Ok(Self { ranks: Ranks::alone(), mpi: None });
        }
        let mpi = Arc::new(Mpi::init()?);
        let threads = mpi.threads();
        if std::env::var_os("RAYON_NUM_THREADS").is_none() {
            rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
        }
        let ranks = Ranks::shared(mpi.clone());
        if ranks.is_first() {
            let threads = rayon::current_num_threads();
            output::note(&format!("{} ranks, {threads} threads on rank 0", ranks.size()));
        }
        Ok(Self { ranks, mpi: Some(mpi) })
    }

    pub(crate) fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// Returns the outcome. An error is printed once for all ranks that have it, and ends those that do not.
    pub(crate) fn leave(self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        let (Some(mpi), Err(error)) = (&self.mpi, &outcome) else { return outcome };
        // Before any rank ends, for a launcher may then end the others.
        if self.ranks.is_first() {
            output::note(&format!("error: {error}"));
        }
        if !mpi.have_all_failed() {
            if !self.ranks.is_first() {
                output::note(&format!("error: rank {}: {error}", rank()));
            }
            mpi.abort();
        }
        Err(Reported.into())
    }
}
