use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::PretrainedError;
use crate::networks::{BertConfig, LlamaConfig};

/// Network that a `config.json` describes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ModelConfig {
    /// BERT encoder.
    Bert(BertConfig),
    /// Llama decoder.
    Llama(LlamaConfig),
}

/// Family of networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Architecture {
    /// BERT encoder.
    Bert,
    /// Llama decoder.
    Llama,
}

impl ModelConfig {
    /// Reads a `config.json`; errors report it as `path`.
    ///
    /// # Errors
    /// Returns an error when a key is missing or malformed, or asks for something that is not
    /// supported.
    pub(super) fn parse(path: &Path, json: &[u8]) -> Result<Self, PretrainedError> {
        let malformed = |reason| PretrainedError::Malformed { path: path.into(), reason };
        let keys: Value = serde_json::from_slice(json).map_err(|e| malformed(e.to_string()))?;
        let Value::Object(keys) = keys else {
            return Err(malformed("expected a JSON object".into()));
        };
        let keys = Keys { path: path.into(), keys };
        keys.refuse("quantization_config")?;
        match keys.text("model_type", None)?.as_str() {
            "bert" => bert(&keys).map(Self::Bert),
            "llama" => llama(&keys).map(Self::Llama),
            other => Err(keys.unsupported("model_type", other, "bert, llama")),
        }
    }

    /// Returns the family.
    pub fn architecture(&self) -> Architecture {
        match self {
            Self::Bert(_) => Architecture::Bert,
            Self::Llama(_) => Architecture::Llama,
        }
    }

    /// Returns the number of tokens in the vocabulary.
    pub fn vocabulary(&self) -> usize {
        match self {
            Self::Bert(config) => config.vocabulary,
            Self::Llama(config) => config.vocabulary,
        }
    }

    /// Returns the largest number of tokens in a text.
    pub fn context(&self) -> usize {
        match self {
            Self::Bert(config) => config.positions,
            Self::Llama(config) => config.positions,
        }
    }
}

fn bert(keys: &Keys) -> Result<BertConfig, PretrainedError> {
    keys.only("hidden_act", "gelu", "gelu (exact)")?;
    keys.only("position_embedding_type", "absolute", "absolute")?;
    keys.refuse("is_decoder")?;
    keys.refuse("add_cross_attention")?;
    let (d_model, n_heads) = (keys.size("hidden_size")?, keys.size("num_attention_heads")?);
    keys.divides("num_attention_heads", n_heads, "hidden_size", d_model)?;
    Ok(BertConfig::new(
        d_model,
        keys.size("intermediate_size")?,
        n_heads,
        keys.layers()?,
        keys.size("vocab_size")?,
        keys.size("max_position_embeddings")?,
        keys.size("type_vocab_size")?,
    )
    .with_epsilon(keys.positive("layer_norm_eps", 1e-12)?))
}

fn llama(keys: &Keys) -> Result<LlamaConfig, PretrainedError> {
    keys.only("hidden_act", "silu", "silu")?;
    keys.refuse_rope_scaling()?;
    keys.refuse_unless_one("partial_rotary_factor")?;
    keys.refuse("sliding_window")?;
    keys.refuse("mlp_bias")?;
    keys.refuse("attention_bias")?;
    let (d_model, n_heads) = (keys.size("hidden_size")?, keys.size("num_attention_heads")?);
    let n_key_value_heads = keys.optional("num_key_value_heads")?.unwrap_or(n_heads);
    keys.divides("num_key_value_heads", n_key_value_heads, "num_attention_heads", n_heads)?;
    let d_head = match keys.optional("head_dim")? {
        Some(d_head) => d_head,
        None => {
            keys.divides("num_attention_heads", n_heads, "hidden_size", d_model)?;
            d_model / n_heads
        }
    };
    if d_head % 2 == 1 || d_head > MOST / n_heads {
        let reason = format!(
            "heads have {d_head} features, expected an even number, with all {n_heads} heads at most {MOST}"
        );
        return Err(keys.malformed(reason));
    }
    Ok(LlamaConfig::new(
        d_model,
        keys.size("intermediate_size")?,
        n_heads,
        n_key_value_heads,
        d_head,
        keys.layers()?,
        keys.size("vocab_size")?,
        keys.size("max_position_embeddings")?,
    )
    .with_theta(keys.theta()?)
    .with_epsilon(keys.positive("rms_norm_eps", 1e-6)?)
    .with_tied(keys.flag("tie_word_embeddings")?))
}

/// Largest size: products of two of them do not overflow.
const MOST: usize = (1 << 28) - 1;
const MOST_LAYERS: usize = 4096;

/// Keys of a configuration file.
struct Keys {
    path: PathBuf,
    keys: Map<String, Value>,
}

impl Keys {
    fn get(&self, key: &str) -> Option<&Value> {
        self.keys.get(key).filter(|value| !value.is_null())
    }

    fn malformed(&self, reason: String) -> PretrainedError {
        PretrainedError::Malformed { path: self.path.clone(), reason }
    }

    fn unsupported(
        &self,
        key: &'static str,
        found: &str,
        supported: &'static str,
    ) -> PretrainedError {
        PretrainedError::Unsupported {
            path: self.path.clone(),
            key,
            found: found.into(),
            supported,
        }
    }

    fn text(&self, key: &str, default: Option<&str>) -> Result<String, PretrainedError> {
        match (self.get(key), default) {
            (Some(Value::String(text)), _) => Ok(text.clone()),
            (None, Some(default)) => Ok(default.into()),
            (found, _) => Err(self.malformed(expected(key, "a string", found))),
        }
    }

    /// Rejects a key whose value is neither absent nor `value`; `supported` describes it in the error.
    fn only(
        &self,
        key: &'static str,
        value: &str,
        supported: &'static str,
    ) -> Result<(), PretrainedError> {
        let found = self.text(key, Some(value))?;
        if found == value { Ok(()) } else { Err(self.unsupported(key, &found, supported)) }
    }

    /// Refuses a key that is neither absent, null nor false.
    fn refuse(&self, key: &'static str) -> Result<(), PretrainedError> {
        match self.get(key) {
            None | Some(Value::Bool(false)) => Ok(()),
            Some(found) => Err(self.unsupported(key, &found.to_string(), "absent, null or false")),
        }
    }

    /// Refuses a number that is neither absent nor 1.
    fn refuse_unless_one(&self, key: &'static str) -> Result<(), PretrainedError> {
        match self.get(key) {
            Some(found) if found.as_f64() != Some(1.0) => {
                Err(self.unsupported(key, &found.to_string(), "absent, null or 1"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a `rope_scaling` that changes something.
    fn refuse_rope_scaling(&self) -> Result<(), PretrainedError> {
        const KEY: &str = "rope_scaling";
        match self.get(KEY) {
            None => Ok(()),
            Some(Value::Object(keys)) if self.inner(keys).refuse_other_rope().is_ok() => Ok(()),
            Some(found) => {
                Err(self.unsupported(KEY, &found.to_string(), "absent, null or default"))
            }
        }
    }

    /// Returns the keys of an object in the file.
    fn inner(&self, keys: &Map<String, Value>) -> Self {
        Self { path: self.path.clone(), keys: keys.clone() }
    }

    /// Refuses a type of rotary position embedding other than the default.
    fn refuse_other_rope(&self) -> Result<(), PretrainedError> {
        // Older folders call the type `type`.
        for key in ["rope_type", "type"] {
            self.only(key, "default", "default")?;
        }
        self.refuse_unless_one("factor")?;
        self.refuse_unless_one("partial_rotary_factor")
    }

    fn optional(&self, key: &str) -> Result<Option<usize>, PretrainedError> {
        let Some(found) = self.get(key) else { return Ok(None) };
        let size = found.as_u64().filter(|size| (1..=MOST as u64).contains(size));
        size.map(|size| Some(size as usize)).ok_or_else(|| {
            let what = format!("a whole number from 1 to {MOST}");
            self.malformed(expected(key, &what, Some(found)))
        })
    }

    fn size(&self, key: &str) -> Result<usize, PretrainedError> {
        let missing = || self.malformed(expected(key, "a positive whole number", None));
        self.optional(key)?.ok_or_else(missing)
    }

    /// Returns the number of layers, which are created before they are compared with the files.
    fn layers(&self) -> Result<usize, PretrainedError> {
        let layers = self.size("num_hidden_layers")?;
        match layers <= MOST_LAYERS {
            true => Ok(layers),
            false => Err(self.malformed(format!(
                "`num_hidden_layers` is {layers}, expected at most {MOST_LAYERS}"
            ))),
        }
    }

    fn positive(&self, key: &str, default: f64) -> Result<f64, PretrainedError> {
        let Some(found) = self.get(key) else { return Ok(default) };
        let number = found.as_f64().filter(|number| *number > 0.0 && number.is_finite());
        number.ok_or_else(|| self.malformed(expected(key, "a positive number", Some(found))))
    }

    /// Returns the base of the rotary position embedding: `rope_theta`, or as of transformers 5 that in `rope_parameters`.
    fn theta(&self) -> Result<f64, PretrainedError> {
        let Some(parameters) = self.get("rope_parameters") else {
            return self.positive("rope_theta", 10_000.0);
        };
        let Value::Object(keys) = parameters else {
            return Err(self.malformed(expected("rope_parameters", "an object", Some(parameters))));
        };
        let inner = self.inner(keys);
        inner.refuse_other_rope()?;
        inner.positive("rope_theta", self.positive("rope_theta", 10_000.0)?)
    }

    fn flag(&self, key: &str) -> Result<bool, PretrainedError> {
        match self.get(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            found => Err(self.malformed(expected(key, "true or false", found))),
        }
    }

    fn divides(
        &self,
        part: &str,
        size: usize,
        whole: &str,
        of: usize,
    ) -> Result<(), PretrainedError> {
        if of.is_multiple_of(size) {
            return Ok(());
        }
        Err(self.malformed(format!("`{whole}` is {of}, expected a multiple of {part} ({size})")))
    }
}

fn expected(key: &str, what: &str, found: Option<&Value>) -> String {
    let found = found.map_or("missing".into(), Value::to_string);
    format!("`{key}` is {found}, expected {what}")
}
