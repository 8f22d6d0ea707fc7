use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn_sparse::calibrate::CalibratedWeight;
use burn_sparse::checkpoint::{Checkpoint, Format, write_atomically};
use serde_json::Value;

use super::state::{Best, State};
use super::{Phase, RunError};
use crate::CalibrationRecord;
use crate::recipe::Recipe;

/// File of the dense model that pruning is distilled from.
pub(super) const TEACHER: &str = "teacher.bpk";

/// Why a new run refuses a file or folder of its name.
const OVERWRITES: &str =
    "is there already, and the run would overwrite it: choose another --run-dir";

/// File of the reports on epochs, one line of JSON each.
pub(super) const EPOCHS: &str = "epochs.jsonl";

/// File of the results.
const RESULTS: &str = "results.json";

/// File of the calibration record.
const CALIBRATION: &str = "calibration.json";

/// Folder of a run: `recipe.toml`, `initial.safetensors` if the run started from the parameters of a checkpoint, `teacher.bpk`
/// with distillation, `calibration.json` with calibration, `epochs.jsonl`, the state to resume from, and at the end
/// `checkpoint.safetensors` and `results.json`; with a pretrained model, also the runnable folder `model`. `.lock` is held while
/// a process trains here; `unproven.safetensors` is a checkpoint that has not been proven to equal the trained model.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Refers to a folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Refers to the folder of a checkpoint's file.
    pub fn of(checkpoint: &Path) -> Self {
        Self::new(checkpoint.parent().unwrap_or(Path::new("")))
    }

    /// Returns the recipe with the run's own copy of a pretrained model in place of the one that it started from, which may have
    /// moved since; unchanged if there is no copy.
    #[must_use]
    pub fn with_own_model(&self, mut recipe: Recipe) -> Recipe {
        if recipe.model.is_some() && self.model().join("config.json").exists() {
            recipe.model = Some(self.model());
        }
        recipe
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file of the final checkpoint before it is proven to equal the trained model.
    pub(super) fn unproven(&self) -> PathBuf {
        self.path.join("unproven.safetensors")
    }

    /// Returns the file of the final checkpoint.
    pub fn checkpoint(&self) -> PathBuf {
        self.path.join("checkpoint.safetensors")
    }

    /// Returns the folder that a run with a pretrained model writes: the final checkpoint, the configuration and the tokenizer.
    pub fn model(&self) -> PathBuf {
        self.path.join("model")
    }

    /// Writes the record of the calibration.
    pub(super) fn save_calibration(&self, record: &CalibrationRecord) -> Result<(), RunError> {
        let path = self.path.join(CALIBRATION);
        let json = serde_json::to_vec_pretty(record).map_err(|error| fail(&path, error))?;
        replace(&path, &json)
    }

    /// Reads the record of the calibration as JSON; `None` if there was none.
    pub(super) fn calibration_record(&self) -> Option<Value> {
        serde_json::from_slice(&std::fs::read(self.path.join(CALIBRATION)).ok()?).ok()
    }

    /// Reads what calibration did to each weight; empty if there was none.
    pub(crate) fn calibration(&self) -> Vec<CalibratedWeight> {
        let weights = self.calibration_record().map(|mut record| match &mut record {
            // Earlier versions wrote the weights alone.
            Value::Array(_) => record,
            _ => record["weights"].take(),
        });
        weights.and_then(|weights| serde_json::from_value(weights).ok()).unwrap_or_default()
    }

    /// Links a checkpoint under a second name, or copies it where hard links are not possible.
    pub(super) fn share(&self, checkpoint: &Path, to: &Path) -> Result<(), RunError> {
        // Left by an earlier attempt that was killed.
        let _ = std::fs::remove_file(to);
        match std::fs::hard_link(checkpoint, to) {
            Ok(()) => Ok(()),
            Err(_) => std::fs::copy(checkpoint, to).map(drop).map_err(|error| fail(to, error)),
        }
    }

    /// Returns `true` if a run has begun here, even if its recipe has been removed.
    pub fn is_begun(&self) -> bool {
        let files = [self.recipe_file(), self.state_file(), self.checkpoint()];
        files.iter().any(|file| file.exists())
    }

    /// Locks the folder against other processes.
    ///
    /// # Errors
    /// Returns an error when another process holds the lock.
    pub(super) fn lock(&self) -> Result<Lock, RunError> {
        let path = self.lock_file();
        let file = File::create(&path).map_err(|error| fail(&path, error))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(RunError::InUse { folder: self.path.clone() }),
            // On file systems without locks, a run without a lock is better than no run.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Lock { _file: file }),
        }
    }

    /// Refuses a recipe that differs from that of the run.
    ///
    /// # Errors
    /// Returns an error that names the first key that differs.
    pub fn expect_recipe(&self, recipe: &Recipe) -> Result<(), RunError> {
        let nothing =
            |reason: String| RunError::NothingToResume { folder: self.path.clone(), reason };
        let text = std::fs::read_to_string(self.recipe_file())
            .map_err(|error| nothing(format!("recipe.toml: {error}")))?;
        let stored: Recipe = text.parse().map_err(|error| fail(&self.recipe_file(), error))?;
        if &stored == recipe { Ok(()) } else { Err(self.other_recipe(&stored, recipe)) }
    }

    /// Creates the folder of a new run.
    ///
    /// # Errors
    /// Returns an error when the folder holds a run already, or another process is using it.
    pub(super) fn create(
        &self,
        recipe: &Recipe,
        initial: Option<&Checkpoint>,
    ) -> Result<Lock, RunError> {
        std::fs::create_dir_all(&self.path).map_err(|error| fail(&self.path, error))?;
        // A run that was killed before it wrote its recipe may have left this file, and its lock. Before the lock, which would
        // make the folder look like ours the next time.
        if !self.lock_file().exists() && !self.is_begun() {
            let written = [CALIBRATION, TEACHER, EPOCHS, RESULTS].map(|file| self.path.join(file));
            let initial = self.initial_file();
            if let Some(file) = written.iter().chain([&initial]).find(|file| file.exists()) {
                return Err(fail(file, OVERWRITES));
            }
        }
        let lock = self.lock()?;
        if self.is_begun() {
            return Err(RunError::Occupied { folder: self.path.clone() });
        }
        if recipe.model.is_some() && self.model().exists() {
            return Err(fail(&self.model(), OVERWRITES));
        }
        match initial {
            Some(initial) => initial.write(self.initial_file(), Format::Packed)?,
            None => match std::fs::remove_file(self.initial_file()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(fail(&self.initial_file(), error));
                }
                _ => {}
            },
        }
        replace(&self.recipe_file(), recipe.to_toml().as_bytes())?;
        Ok(lock)
    }

    /// Reads the parameters that the run started from; `None` if they were freshly initialized.
    pub(super) fn initial(&self) -> Result<Option<Checkpoint>, RunError> {
        let path = self.initial_file();
        if path.exists() { Ok(Some(Checkpoint::read(path)?)) } else { Ok(None) }
    }

    /// Reads the state of a run of the same recipe. A run that ended before its first save starts again, in `first`.
    ///
    /// # Errors
    /// Returns an error when there is no run, or another process is using the folder.
    pub(super) fn resume(&self, recipe: &Recipe, first: Phase) -> Result<(State, Lock), RunError> {
        self.expect_recipe(recipe)?;
        let lock = self.lock()?;
        let path = self.state_file();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok((State::new(first), lock));
            }
            Err(error) => return Err(fail(&path, error)),
        };
        Ok((serde_json::from_str(&text).map_err(|error| fail(&path, error))?, lock))
    }

    fn other_recipe(&self, stored: &Recipe, wanted: &Recipe) -> RunError {
        let (stored, wanted) = (stored.keys(), wanted.keys());
        let differs = |key: &&String| stored.get(*key) != wanted.get(*key);
        let key = wanted.keys().chain(stored.keys()).find(differs).cloned().unwrap_or_default();
        let value = |keys: &BTreeMap<String, String>| {
            keys.get(&key).cloned().unwrap_or_else(|| "not set".into())
        };
        let (found, expected) = (value(&stored), value(&wanted));
        RunError::OtherRecipe { folder: self.path.clone(), key, found, expected }
    }

    /// Saves the best model so far.
    pub(super) fn save_best<M: Module>(&self, best: &Best, model: &M) -> Result<(), RunError> {
        self.save_module(&best.model, model)
    }

    /// Removes a model that is no longer the best. A leftover file only takes space.
    pub(super) fn forget(&self, best: &Best) {
        let _ = std::fs::remove_file(self.path.join(&best.model));
    }

    /// Saves the dense model that pruning is distilled from.
    pub(super) fn save_teacher<M: Module>(&self, model: &M) -> Result<(), RunError> {
        self.save_module(TEACHER, model)
    }

    fn save_module<M: Module>(&self, name: &str, model: &M) -> Result<(), RunError> {
        let path = self.path.join(name);
        // Running statistics are updated when read, but not when recorded.
        let _ = model.valid();
        let bytes = model.clone().into_record().into_bytes();
        replace(&path, &bytes.map_err(|error| fail(&path, error))?)
    }

    /// Saves the state of the run: new files first, then the small file that refers to them, so that a run killed at any
    /// moment finds a complete state.
    pub(super) fn save<M: Module>(
        &self,
        state: &mut State,
        model: &M,
        optimizer: &ModuleOptimizer,
    ) -> Result<(), RunError> {
        let old = (state.model.clone(), state.optimizer.clone());
        let mark = format!("{}-{:03}-{:06}", state.phase.name(), state.epoch, state.step);
        state.model = format!("model-{mark}.bpk");
        state.optimizer = format!("optimizer-{mark}.bpk");
        self.save_module(&state.model, model)?;
        let optimizer_file = self.path.join(&state.optimizer);
        let bytes = optimizer.into_bytes();
        replace(&optimizer_file, &bytes.map_err(|error| fail(&optimizer_file, error))?)?;
        let json = serde_json::to_vec_pretty(&state).map_err(|error| fail(&self.path, error))?;
        replace(&self.state_file(), &json)?;
        for (old, new) in [(old.0, &state.model), (old.1, &state.optimizer)] {
            if !old.is_empty() && old != *new {
                // A leftover file only takes space.
                let _ = std::fs::remove_file(self.path.join(old));
            }
        }
        Ok(())
    }

    /// Writes `results.json`.
    ///
    /// # Errors
    /// Returns an error when the file cannot be written.
    pub fn write_results(&self, json: &[u8]) -> Result<(), RunError> {
        replace(&self.path.join(RESULTS), json)
    }

    fn lock_file(&self) -> PathBuf {
        self.path.join(".lock")
    }

    fn state_file(&self) -> PathBuf {
        self.path.join("state.json")
    }

    fn initial_file(&self) -> PathBuf {
        self.path.join("initial.safetensors")
    }

    fn recipe_file(&self) -> PathBuf {
        self.path.join("recipe.toml")
    }
}

/// Lock on a folder, released when dropped or when the process ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

fn replace(path: &Path, bytes: &[u8]) -> Result<(), RunError> {
    write_atomically(path, bytes).map_err(|error| fail(path, error))
}

pub(super) fn fail(path: &Path, reason: impl ToString) -> RunError {
    RunError::File { path: path.into(), reason: reason.to_string() }
}
