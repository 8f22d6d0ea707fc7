//! Files of sentence-transformers beside a model: how texts are cut, and how the outputs of the encoder become a vector.

use serde_json::Value;

use super::file_names::{MODULES, POOLING, PROMPTS, SENTENCE, TOKENIZER_CONFIG};
use super::{Folder, PretrainedError};

impl Folder {
    /// Returns the largest number of tokens in a sentence: the limit of sentence-transformers, or else that of the tokenizer, if
    /// the model's context is not smaller.
    pub(super) fn longest_sentence(&self) -> Result<usize, PretrainedError> {
        let context = self.config().context();
        let limit = |file, key: &str| -> Result<Option<usize>, PretrainedError> {
            // Tokenizers without a limit say 1e30.
            let limit = self.json(file)?[key].as_u64();
            Ok(limit.and_then(|limit| usize::try_from(limit).ok()).filter(|&limit| limit > 1))
        };
        let limit = match limit(SENTENCE, "max_seq_length")? {
            Some(limit) => Some(limit),
            None => limit(TOKENIZER_CONFIG, "model_max_length")?,
        };
        Ok(limit.map_or(context, |limit| limit.min(context)))
    }

    /// Returns `true` if texts are converted to lower case before they are tokenized.
    pub(super) fn lowers_case(&self) -> Result<bool, PretrainedError> {
        Ok(self.json(SENTENCE)?["do_lower_case"] == true)
    }

    /// Refuses a folder of sentence-transformers that asks for anything besides an encoder, the mean of its outputs, and vectors
    /// of length one.
    pub(super) fn refuse_other_modules(&self) -> Result<(), PretrainedError> {
        let unsupported = |file, key, found: &Value, supported| {
            let found = found.as_str().map_or_else(|| found.to_string(), str::to_string);
            PretrainedError::Unsupported { path: self.files().path(file), key, found, supported }
        };
        if let Value::Array(modules) = self.json(MODULES)? {
            for module in &modules {
                // Modules are Python classes, which move between releases.
                let class = module["type"].as_str().unwrap_or_default().rsplit('.').next();
                match class.unwrap_or_default() {
                    "Transformer" | "Normalize" => {}
                    "Pooling" if module["path"] == "1_Pooling" => {}
                    "Pooling" => {
                        return Err(unsupported(MODULES, "path", &module["path"], "1_Pooling"));
                    }
                    _ => {
                        let supported = "Transformer, Pooling, Normalize";
                        return Err(unsupported(MODULES, "type", &module["type"], supported));
                    }
                }
            }
        }
        match &self.json(PROMPTS)?["default_prompt_name"] {
            Value::Null => {}
            prompt => return Err(unsupported(PROMPTS, "default_prompt_name", prompt, "null")),
        }
        let Value::Object(keys) = self.json(POOLING)? else { return Ok(()) };
        // One key for every mode, or, in newer folders, a single one.
        let chosen = |key: &&String| key.starts_with("pooling_mode_") && keys[*key] == true;
        if let Some(other) =
            keys.keys().find(|key| chosen(key) && *key != "pooling_mode_mean_tokens")
        {
            let other = Value::from(other.as_str());
            return Err(unsupported(POOLING, "pooling_mode", &other, "pooling_mode_mean_tokens"));
        }
        match keys.get("pooling_mode") {
            None | Some(Value::Null) => Ok(()),
            Some(Value::String(mode)) if mode == "mean" => Ok(()),
            Some(Value::Array(modes)) if modes.iter().all(|mode| mode == "mean") => Ok(()),
            Some(other) => Err(unsupported(POOLING, "pooling_mode", other, "mean")),
        }
    }
}
