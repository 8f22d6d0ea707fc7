use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{PruneTable, RecipeError, overrides};

/// What to train, what to prune, how far and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The version of this language: 1.
    pub version: u32,
    /// A task of `burn-sparse-models`.
    pub task: String,
    /// Seeds weights, data order and mask search.
    #[serde(default)]
    pub seed: u64,
    /// Dense training, then fine-tuning under the ramp.
    #[serde(default)]
    pub train: TrainTable,
    /// Rules; the last one that matches a parameter wins.
    #[serde(default)]
    pub prune: Vec<PruneTable>,
    /// After the last update.
    #[serde(default)]
    pub after: After,
}

/// The `[train]` table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainTable {
    /// Epochs before pruning starts.
    pub dense_epochs: usize,
    /// Epochs of fine-tuning while and after sparsity rises.
    pub prune_epochs: usize,
    /// Fine-tunes a packed checkpoint under the masks it has: what is zero stays zero (sparse transfer).
    /// There is no `[[prune]]` table then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_zeros: bool,
    /// Samples of an optimizer step.
    pub batch_size: usize,
    /// The optimizer; it starts afresh when pruning starts.
    pub optimizer: OptimizerSpec,
    /// The learning rate over each of the two phases.
    pub learning_rate_schedule: LearningRateSchedule,
}

impl Default for TrainTable {
    fn default() -> Self {
        Self {
            dense_epochs: 0,
            prune_epochs: 1,
            keep_zeros: false,
            batch_size: 128,
            optimizer: OptimizerSpec::AdamW { learning_rate: 1e-3, weight_decay: 1e-4 },
            learning_rate_schedule: LearningRateSchedule::Constant,
        }
    }
}

/// The optimizers a recipe can name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum OptimizerSpec {
    /// Adam with decoupled weight decay.
    AdamW {
        /// The peak learning rate.
        learning_rate: f64,
        /// Decoupled weight decay.
        #[serde(default)]
        weight_decay: f64,
    },
    /// Stochastic gradient descent.
    Sgd {
        /// The peak learning rate.
        learning_rate: f64,
        /// Momentum; 0 for none.
        #[serde(default)]
        momentum: f64,
        /// Weight decay, added to the gradient.
        #[serde(default)]
        weight_decay: f64,
    },
}

impl OptimizerSpec {
    /// The peak learning rate.
    pub fn learning_rate(&self) -> f64 {
        match *self {
            Self::AdamW { learning_rate, .. } | Self::Sgd { learning_rate, .. } => learning_rate,
        }
    }
}

/// The learning rate over a phase of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LearningRateSchedule {
    /// The peak throughout.
    #[default]
    Constant,
    /// Falls from the peak to nothing along half a cosine.
    Cosine,
    /// Falls from the peak to nothing along a line.
    Linear,
}

impl LearningRateSchedule {
    /// The share of the peak at `progress`, 0 to 1, of the phase.
    pub fn share(&self, progress: f64) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::Cosine => (1.0 + (std::f64::consts::PI * progress).cos()) / 2.0,
            Self::Linear => 1.0 - progress,
        }
    }
}

/// The `[after]` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct After {
    /// What happens to masks.
    pub mask: MaskAfter,
}

/// What happens to masks after their last update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MaskAfter {
    /// They stay; dropped weights are zero and stay so.
    #[default]
    Freeze,
}

impl Recipe {
    /// Reads a file.
    ///
    /// # Errors
    /// Names the key, the line and what was probably meant.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, RecipeError> {
        Self::load_with(path, &[])
    }

    /// Reads a file and sets `key=value` pairs before anything is checked; `prune.KEY` sets the key
    /// in every `[[prune]]` table.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_with(path: impl AsRef<Path>, sets: &[String]) -> Result<Self, RecipeError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|source| RecipeError::Read { path: path.into(), source })?;
        Self::parse_with(&text, sets)
    }

    /// Reads text and sets `key=value` pairs before anything is checked.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse_with(text: &str, sets: &[String]) -> Result<Self, RecipeError> {
        // Parsed as written first, so that errors of the file still know their line.
        let mut recipe: Self =
            toml::from_str(text).map_err(|error| RecipeError::from_toml(&error, text))?;
        if !sets.is_empty() {
            let changed = overrides::apply(text, sets)?;
            recipe = toml::from_str(&changed).map_err(|error| {
                match RecipeError::from_toml(&error, &changed) {
                    // Lines of the rewritten text mean nothing to the reader.
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

    /// The recipe as TOML.
    pub fn to_toml(&self) -> String {
        // Cannot fail: every field has a TOML form, and tests write every recipe.
        toml::to_string(self).unwrap_or_default()
    }

    fn validate(&self) -> Result<(), RecipeError> {
        if self.version != 1 {
            let reason = format!("is {}, this program knows version 1", self.version);
            return Err(RecipeError::value("version", reason));
        }
        if self.train.batch_size == 0 {
            return Err(RecipeError::value("train.batch_size", "is 0, expected at least 1"));
        }
        let rate = self.train.optimizer.learning_rate();
        if !(rate > 0.0 && rate.is_finite()) {
            let reason = format!("is {rate}, expected a positive number");
            return Err(RecipeError::value("train.optimizer.learning_rate", reason));
        }
        let (momentum, decay) = match self.train.optimizer {
            OptimizerSpec::AdamW { weight_decay, .. } => (0.0, weight_decay),
            OptimizerSpec::Sgd { momentum, weight_decay, .. } => (momentum, weight_decay),
        };
        if !(0.0..1.0).contains(&momentum) {
            let reason = format!("is {momentum}, expected 0 or more, and below 1");
            return Err(RecipeError::value("train.optimizer.momentum", reason));
        }
        if !(decay >= 0.0 && decay.is_finite()) {
            let reason = format!("is {decay}, expected 0 or a positive number");
            return Err(RecipeError::value("train.optimizer.weight_decay", reason));
        }
        if self.train.keep_zeros && !self.prune.is_empty() {
            let reason =
                "is true, which leaves nothing to the [[prune]] tables: take one of the two out";
            return Err(RecipeError::value("train.keep_zeros", reason));
        }
        if self.train.keep_zeros && self.train.dense_epochs > 0 {
            let reason = "is true, but dense epochs would bring the zeros back: set train.dense_epochs \
                          to 0";
            return Err(RecipeError::value("train.keep_zeros", reason));
        }
        self.prune.iter().enumerate().try_for_each(|(index, table)| table.validate(index))
    }
}

impl FromStr for Recipe {
    type Err = RecipeError;

    fn from_str(text: &str) -> Result<Self, RecipeError> {
        Self::parse_with(text, &[])
    }
}
