use std::path::Path;

use serde_json::Value;

use super::PretrainedError;

/// Tokenizer of a pretrained model, from its `tokenizer.json`.
pub struct Tokenizer {
    tokens: tokenizers::Tokenizer,
    /// Number of tokens that the model knows.
    vocabulary: usize,
    /// Tokens before and after a text, in place of those of `tokenizer.json`.
    ends: Option<[Option<u32>; 2]>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer({} tokens)", self.tokens.get_vocab_size(true))
    }
}

impl Tokenizer {
    /// Reads a `tokenizer.json`; errors report it as `path`. Its tokens, besides those added to it, must be below `vocabulary`.
    /// Truncation and padding that the file asks for are disabled.
    ///
    /// # Errors
    /// Returns an error when the file cannot be read, or belongs to another vocabulary.
    pub(super) fn parse(
        path: &Path,
        bytes: &[u8],
        vocabulary: usize,
    ) -> Result<Self, PretrainedError> {
        let malformed = |reason: String| PretrainedError::Malformed { path: path.into(), reason };
        let mut tokenizer = tokenizers::Tokenizer::from_bytes(bytes)
            .map_err(|error| malformed(format!("not a tokenizer: {error}")))?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| malformed(error.to_string()))?;
        // Some models add a token, for padding, that they have no weights for.
        let most = tokenizer.get_vocab(false).into_values().max().unwrap_or(0);
        if most as usize >= vocabulary {
            return Err(malformed(format!(
                "has a token {most}, config.json has a vocabulary of {vocabulary}: another model's tokenizer"
            )));
        }
        Ok(Self { tokens: tokenizer, vocabulary, ends: None })
    }

    /// Applies `add_bos_token` and `add_eos_token` of a `tokenizer_config.json`, which errors report as `path`. They count for the
    /// tokenizers of Llama alone, whose tokens at both ends `tokenizer.json` need not name.
    pub(super) fn with_ends(
        mut self,
        path: &Path,
        config: &Value,
    ) -> Result<Self, PretrainedError> {
        let of_llama = ["LlamaTokenizer", "LlamaTokenizerFast"];
        let (first, last) = (config["add_bos_token"].as_bool(), config["add_eos_token"].as_bool());
        if !of_llama.iter().any(|class| config["tokenizer_class"] == *class)
            || (first.is_none() && last.is_none())
        {
            return Ok(self);
        }
        let end = |adds: bool, key: &str| -> Result<Option<u32>, PretrainedError> {
            let token = &config[key];
            let text = token.as_str().or_else(|| token["content"].as_str());
            let id = text.and_then(|text| self.tokens.token_to_id(text));
            match (adds, id) {
                (false, _) => Ok(None),
                (true, Some(id)) => Ok(Some(id)),
                (true, None) => Err(PretrainedError::Malformed {
                    path: path.into(),
                    reason: format!(
                        "adds `{key}` to a text, but {token} is no token of the tokenizer"
                    ),
                }),
            }
        };
        // Their defaults in transformers.
        let ends =
            [end(first.unwrap_or(true), "bos_token")?, end(last.unwrap_or(false), "eos_token")?];
        self.ends = Some(ends);
        Ok(self)
    }

    /// Returns the tokens of a text, with the special tokens that the model expects.
    ///
    /// # Errors
    /// Returns an error when the tokenizer cannot process the text, or finds a token that the model does not know.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, PretrainedError> {
        let encoding = self.tokens.encode_fast(text, self.ends.is_none()).map_err(input)?;
        let [first, last] = self.ends.unwrap_or_default();
        let inner = encoding.get_ids().iter().copied();
        let tokens: Vec<u32> = first.into_iter().chain(inner).chain(last).collect();
        match tokens.iter().find(|&&token| token as usize >= self.vocabulary) {
            None => Ok(tokens),
            Some(token) => Err(PretrainedError::Input(format!(
                "the tokenizer gives the token {token}, the model's vocabulary has {}",
                self.vocabulary
            ))),
        }
    }

    /// Returns the text of tokens, without special tokens.
    ///
    /// # Errors
    /// Returns an error when the tokenizer cannot decode the tokens.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, PretrainedError> {
        self.tokens.decode(tokens, true).map_err(input)
    }
}

fn input(error: tokenizers::Error) -> PretrainedError {
    PretrainedError::Input(error.to_string())
}
