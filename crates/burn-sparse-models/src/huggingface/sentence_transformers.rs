//! Settings of sentence-transformers beside a model: how texts are prepared.

use serde_json::Value;

use super::file_names::{SENTENCE, TOKENIZER_CONFIG};
use super::{Folder, PretrainedError};

impl Folder {
    /// Returns the largest number of tokens in a sentence: the limit of sentence-transformers, or else that of the tokenizer, if
    /// the model's context is not smaller.
    pub(super) fn longest_sentence(&self) -> Result<usize, PretrainedError> {
        let context = self.config().context();
        let limit = |file, key: &str| -> Result<Option<usize>, PretrainedError> {
            let found = &self.files().json(file)?[key];
            // Tokenizers without a limit say 1e30.
            let limit = found.as_f64().filter(|limit| *limit >= 2.0).map(|limit| limit as usize);
            match found.is_null() || found.is_number() {
                true => Ok(limit),
                false => Err(self
                    .files()
                    .malformed(file, format!("`{key}` is {found}, expected a number"))),
            }
        };
        let limit = match limit(SENTENCE, "max_seq_length")? {
            Some(limit) => Some(limit),
            None => limit(TOKENIZER_CONFIG, "model_max_length")?,
        };
        Ok(limit.map_or(context, |limit| limit.min(context)))
    }

    /// Returns `true` if texts are converted to lower case before they are tokenized.
    pub(super) fn lowers_case(&self) -> Result<bool, PretrainedError> {
        match &self.files().json(SENTENCE)?["do_lower_case"] {
            Value::Null => Ok(false),
            Value::Bool(lowers) => Ok(*lowers),
            other => {
                let reason = format!("`do_lower_case` is {other}, expected true or false");
                Err(self.files().malformed(SENTENCE, reason))
            }
        }
    }
}
