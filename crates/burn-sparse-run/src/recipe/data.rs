use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::RecipeError;

/// The `[data]` table: the data of tasks with pretrained models. Files are looked for in the folder of the data sets first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Training text. `sentence-embedding` takes each of its lines as a sample; without a text it takes STS-B's training pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<PathBuf>,
    /// Test text of `causal-lm`.
    pub test: PathBuf,
    /// Number of training samples of an epoch, spread evenly over the data. Defaults to the 5749 pairs of STS-B, or to 1024
    /// for a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<usize>,
    /// Number of tokens of a training sample of `causal-lm`.
    pub length: usize,
    /// Number of windows of the test text.
    pub windows: usize,
    /// Number of tokens of a window of the test text.
    pub context: usize,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            text: None,
            test: PathBuf::from("text/wikitext2-raw-test.txt"),
            samples: None,
            length: 256,
            windows: 6,
            context: 512,
        }
    }
}

impl DataConfig {
    /// Returns the path of a file: in the folder of the data sets if it is there, otherwise as given.
    pub(crate) fn path(folder: Option<&Path>, file: &Path) -> PathBuf {
        let inside = folder.map(|folder| folder.join(file)).filter(|path| path.exists());
        inside.unwrap_or_else(|| file.into())
    }

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn validate(&self) -> Result<(), RecipeError> {
        let least = [
            ("samples", self.samples.unwrap_or(1), 1),
            ("length", self.length, 2),
            ("windows", self.windows, 1),
            ("context", self.context, 2),
        ];
        match least.into_iter().find(|(_, found, least)| found < least) {
            None => Ok(()),
            Some((key, found, least)) => {
                let reason = format!("is {found}, expected at least {least}");
                Err(RecipeError::value(format!("data.{key}"), reason))
            }
        }
    }
}
