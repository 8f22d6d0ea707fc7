use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use burn::module::Module;
use burn_sparse::checkpoint::Checkpoint;
use burn_sparse::prune::{Horizon, Plan, PruneConfig, Pruning};
use serde::{Deserialize, Serialize};

use super::{After, Calibrate, DataConfig, RecipeError, TrainConfig, overrides};

/// A recipe: the task, its training, and the pruning rules.
///
/// ```
/// use burn_sparse_run::recipe::Recipe;
///
/// let recipe: Recipe = r#"
///     version = 1
///     task = "glyphs-mlp"
///     [[prune]]
///     except = "head.*"
///     pattern = "shfl-bw(vector=32)"
///     sparsity = 0.75
///     end = "0.5 epochs"
/// "#
/// .parse()?;
/// assert_eq!(recipe.prune[0].target(), 0.75);
/// # Ok::<(), burn_sparse_run::recipe::RecipeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Version of the recipe language: 1.
    pub version: u32,
    /// Name of the task.
    pub task: String,
    /// Pretrained model of `sentence-embedding` and `causal-lm`: a Hugging Face folder, or a name on the hub
    /// (`owner/model`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// Width of the task's own network, as a share of the usual one, up to 1, for a smaller dense network as a baseline.
    #[serde(default = "usual", skip_serializing_if = "is_usual")]
    pub width: f64,
    /// Seed of weights, data order, and mask search.
    #[serde(default)]
    pub seed: u64,
    /// Data of tasks with pretrained models.
    #[serde(default, skip_serializing_if = "DataConfig::is_default")]
    pub data: DataConfig,
    /// Dense training, then fine-tuning under masks.
    #[serde(default)]
    pub train: TrainConfig,
    /// One-shot pruning by the inputs of layers, in place of a ramp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibrate: Option<Calibrate>,
    /// Pruning rules; the last one that matches a parameter applies.
    #[serde(default)]
    pub prune: Vec<PruneConfig>,
    /// Treatment of masks and of the optimizer's state after updates.
    #[serde(default)]
    pub after: After,
}

fn usual() -> f64 {
    1.0
}

fn is_usual(width: &f64) -> bool {
    *width == usual()
}

impl Recipe {
    /// Reads a recipe from a file.
    ///
    /// # Errors
    /// Returns an error that names the key, the line, and what was probably meant.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, RecipeError> {
        Self::load_with(path, &[])
    }

    /// Reads a recipe from a file, and applies `key=value` overrides before anything is checked; `prune.KEY` sets the key in
    /// every `[[prune]]` table.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::load`].
    pub fn load_with(path: impl AsRef<Path>, sets: &[String]) -> Result<Self, RecipeError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|source| RecipeError::Read { path: path.into(), source })?;
        Self::parse_with(&text, sets)
    }

    /// Reads a recipe from text, and applies `key=value` overrides before anything is checked.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::load`].
    pub fn parse_with(text: &str, sets: &[String]) -> Result<Self, RecipeError> {
        // Parses the file itself first, so that its errors have line numbers.
        let mut recipe: Self =
            toml::from_str(text).map_err(|error| RecipeError::from_toml(&error, text))?;
        if !sets.is_empty() {
            let changed = overrides::apply(text, sets)?;
            recipe = toml::from_str(&changed).map_err(|error| {
                match RecipeError::from_toml(&error, &changed) {
                    // Lines of the rewritten text would be misleading.
                    RecipeError::Syntax { reason, suggestion, .. } => {
                        let reason = format!("after --set: {reason}");
                        RecipeError::Syntax { line: None, reason, suggestion }
                    }
                    other => other,
                }
            })?;
        }
        recipe.validate()?;
        Ok(recipe)
    }

    /// Returns the recipe that a checkpoint carries, or `None` if it carries none.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::load`].
    pub fn of(checkpoint: &Checkpoint) -> Result<Option<Self>, RecipeError> {
        checkpoint.provenance().recipe().map(|text| Self::parse_with(text, &[])).transpose()
    }

    /// Returns the recipe as TOML.
    pub fn to_toml(&self) -> String {
        // Cannot fail: every field has a TOML form.
        toml::to_string(self).unwrap_or_default()
    }

    /// Returns every key that the recipe sets, as in `train.batch_size` or `prune[0].pattern`, and its value.
    pub(crate) fn keys(&self) -> BTreeMap<String, String> {
        let mut keys = BTreeMap::new();
        if let Ok(table) = toml::Value::try_from(self) {
            collect_keys(String::new(), &table, &mut keys);
        }
        keys
    }

    /// Returns the pruning rules, with the recipe's seed and treatment of the optimizer's state.
    pub fn pruning(&self) -> Pruning {
        Pruning::new(self.prune.iter().cloned())
            .with_seed(self.seed)
            .with_optimizer_state(self.after.optimizer_state)
    }

    /// Returns the length of the pruning phase, for epochs of `steps_per_epoch` optimizer steps.
    pub fn horizon(&self, steps_per_epoch: usize) -> Horizon {
        Horizon::epochs(self.train.prune_epochs, steps_per_epoch)
    }

    /// Plans the pruning of a model, for epochs of `steps_per_epoch` optimizer steps.
    ///
    /// # Errors
    /// Returns the same errors as [`Plan::new`], and as [`Plan::check_calibration`] if the recipe calibrates.
    pub fn plan<M: Module>(&self, model: &M, steps_per_epoch: usize) -> Result<Plan, RecipeError> {
        let plan = Plan::new(self.pruning(), model, self.horizon(steps_per_epoch))?;
        if let Some(calibrate) = &self.calibrate {
            plan.check_calibration(&calibrate.config())?;
        }
        Ok(plan)
    }

    fn validate(&self) -> Result<(), RecipeError> {
        if self.version != 1 {
            let reason = format!("is {}, this program knows version 1", self.version);
            return Err(RecipeError::value("version", reason));
        }
        if !(self.width > 0.0 && self.width <= 1.0) {
            let reason = format!("is {}, expected a share above 0 and up to 1", self.width);
            return Err(RecipeError::value("width", reason));
        }
        if self.train.keep_zeros && !self.prune.is_empty() {
            let reason =
                "is true, which leaves nothing to the [[prune]] tables: remove one of them";
            return Err(RecipeError::value("train.keep_zeros", reason));
        }
        if let Some(calibrate) = &self.calibrate {
            calibrate.validate()?;
            if self.train.keep_zeros {
                let reason =
                    "has no effect on the fixed masks of train.keep_zeros: remove one of them";
                return Err(RecipeError::value("calibrate", reason));
            }
        }
        self.data.validate()?;
        self.train.validate()?;
        Ok(self.pruning().validate()?)
    }
}

fn collect_keys(at: String, value: &toml::Value, keys: &mut BTreeMap<String, String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                let key = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                collect_keys(key, value, keys);
            }
        }
        toml::Value::Array(values) if values.iter().any(toml::Value::is_table) => {
            for (index, value) in values.iter().enumerate() {
                collect_keys(format!("{at}[{index}]"), value, keys);
            }
        }
        value => {
            keys.insert(at, value.to_string());
        }
    }
}

impl FromStr for Recipe {
    type Err = RecipeError;

    fn from_str(text: &str) -> Result<Self, RecipeError> {
        Self::parse_with(text, &[])
    }
}
