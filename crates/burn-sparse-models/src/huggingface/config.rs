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
        keys.size("num_hidden_layers")?,
        keys.size("vocab_size")?,
        keys.size("max_position_embeddings")?,
        keys.size("type_vocab_size")?,
    )
    .with_epsilon(keys.positive("layer_norm_eps", 1e-12)?))
}

fn llama(keys: &Keys) -> Result<LlamaConfig, PretrainedError> {
    keys.only("hidden_act", "silu", "silu")?;
    keys.refuse("rope_scaling")?;
    keys.refuse("partial_rotary_factor")?;
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
    keys.divides("2", 2, "head_dim", d_head)?;
    Ok(LlamaConfig::new(
        d_model,
        keys.size("intermediate_size")?,
        n_heads,
        n_key_value_heads,
        d_head,
        keys.size("num_hidden_layers")?,
        keys.size("vocab_size")?,
        keys.size("max_position_embeddings")?,
    )
    .with_theta(keys.theta()?)
    .with_epsilon(keys.positive("rms_norm_eps", 1e-6)?)
    .with_tied(keys.flag("tie_word_embeddings")?))
}

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
            Some(found) => Err(self.unsupported(key, &found.to_string(), "none")),
        }
    }

    fn optional(&self, key: &str) -> Result<Option<usize>, PretrainedError> {
        let Some(found) = self.get(key) else { return Ok(None) };
        // Larger sizes would overflow products of two of them.
        let size = found.as_u64().filter(|size| (1..1 << 28).contains(size));
        size.map(|size| Some(size as usize))
            .ok_or_else(|| self.malformed(expected(key, "a positive whole number", Some(found))))
    }

    fn size(&self, key: &str) -> Result<usize, PretrainedError> {
        let missing = || self.malformed(expected(key, "a positive whole number", None));
        self.optional(key)?.ok_or_else(missing)
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
        let inner = Self { path: self.path.clone(), keys: keys.clone() };
        // Older folders call the type `type`.
        for key in ["rope_type", "type"] {
            inner.only(key, "default", "default")?;
        }
        inner.refuse("factor")?;
        inner.refuse("partial_rotary_factor")?;
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
