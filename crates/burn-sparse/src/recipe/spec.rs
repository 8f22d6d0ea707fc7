use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{After, PruneTable, RecipeError, TrainTable, overrides};

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
        if self.train.keep_zeros && !self.prune.is_empty() {
            let reason =
                "is true, which leaves nothing to the [[prune]] tables: take one of the two out";
            return Err(RecipeError::value("train.keep_zeros", reason));
        }
        self.train.validate()?;
        self.prune.iter().enumerate().try_for_each(|(index, table)| table.validate(index))
    }
}

impl FromStr for Recipe {
    type Err = RecipeError;

    fn from_str(text: &str) -> Result<Self, RecipeError> {
        Self::parse_with(text, &[])
    }
}
