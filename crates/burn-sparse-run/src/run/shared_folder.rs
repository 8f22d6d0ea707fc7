use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::store::ModuleRecord;
use burn::tensor::Bytes;
use burn_sparse::checkpoint::Checkpoint;
use burn_sparse::distributed::Ranks;

use super::folder::{Lock, TEACHER, fail};
use super::state::{Best, State};
use super::{Phase, RunError, RunFolder};
use crate::recipe::Recipe;

/// Folder of a run that several ranks train: rank 0 reads and writes it, and the others receive what it read.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedFolder<'a> {
    folder: &'a RunFolder,
    ranks: &'a Ranks,
}

impl<'a> SharedFolder<'a> {
    pub(super) fn new(folder: &'a RunFolder, ranks: &'a Ranks) -> Self {
        Self { folder, ranks }
    }

    /// Writes on rank 0; all ranks return its error.
    pub(super) fn write(
        &self,
        write: impl FnOnce(&RunFolder) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        self.ranks.lead(|| write(self.folder).map(|()| Vec::new())).map(drop)
    }

    /// As [`RunFolder::create`]. Rank 0 holds the lock.
    pub(super) fn create(
        &self,
        recipe: &Recipe,
        initial: Option<&Checkpoint>,
    ) -> Result<Option<Lock>, RunError> {
        let mut lock = None;
        self.write(|folder| {
            lock = Some(folder.create(recipe, initial)?);
            Ok(())
        })?;
        Ok(lock)
    }

    /// As [`RunFolder::resume`]. Rank 0 holds the lock.
    pub(super) fn resume(
        &self,
        recipe: &Recipe,
        first: Phase,
    ) -> Result<(State, Option<Lock>), RunError> {
        let mut found = None;
        let json = self.ranks.lead(|| {
            let (state, lock) = self.folder.resume(recipe, first)?;
            let json = serde_json::to_vec(&state);
            found = Some((state, Some(lock)));
            json.map_err(|error| fail(self.folder.path(), error))
        })?;
        match found {
            Some(found) => Ok(found),
            None => {
                let state = serde_json::from_slice(&json);
                Ok((state.map_err(|error| fail(self.folder.path(), error))?, None))
            }
        }
    }

    /// Loads the model of a saved state into a module of the same architecture.
    pub(super) fn load_model<M: Module>(&self, state: &State, model: M) -> Result<M, RunError> {
        self.load_module(&state.model, model)
    }

    /// Loads the best model into a module of the same architecture.
    pub(super) fn load_best<M: Module>(&self, best: &Best, model: M) -> Result<M, RunError> {
        self.load_module(&best.model, model)
    }

    /// Loads the dense model that pruning is distilled from into a module of the same architecture.
    pub(super) fn load_teacher<M: Module>(&self, model: M) -> Result<M, RunError> {
        self.load_module(TEACHER, model)
    }

    /// Loads the optimizer of a saved state.
    pub(super) fn load_optimizer(
        &self,
        state: &State,
        optimizer: ModuleOptimizer,
    ) -> Result<ModuleOptimizer, RunError> {
        let bytes = self.read(&state.optimizer)?;
        let loaded = optimizer.from_bytes(bytes);
        self.ranks.agree(loaded.map_err(|error| self.fail(&state.optimizer, error)))
    }

    fn load_module<M: Module>(&self, name: &str, model: M) -> Result<M, RunError> {
        let record = ModuleRecord::from_bytes(self.read(name)?);
        let loaded = record.and_then(|record| model.try_load_record(record));
        self.ranks.agree(loaded.map_err(|error| self.fail(name, error)))
    }

    fn read(&self, name: &str) -> Result<Bytes, RunError> {
        let path = self.folder.path().join(name);
        let read = || std::fs::read(&path).map_err(|error| fail(&path, error));
        Ok(Bytes::from_bytes_vec(self.ranks.lead(read)?))
    }

    fn fail(&self, name: &str, error: impl ToString) -> RunError {
        fail(&self.folder.path().join(name), error)
    }
}
