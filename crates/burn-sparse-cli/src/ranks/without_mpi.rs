use burn_sparse::distributed::Ranks;

use super::count;
use crate::failure::Failure;

/// This process alone.
pub(crate) struct Launched(Ranks);

impl Launched {
    /// Refuses to be one of many ranks, each of which would train the whole run.
    pub(crate) fn join() -> Result<Self, Failure> {
        match count() {
            1 => Ok(Self(Ranks::alone())),
            ranks => Err(format!(
                "started as one of {ranks} ranks, but this build has no MPI: build it with `--features mpi`"
            )
            .into()),
        }
    }

    pub(crate) fn ranks(&self) -> &Ranks {
        &self.0
    }

    /// Returns the outcome.
    pub(crate) fn leave(self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        outcome
    }
}
