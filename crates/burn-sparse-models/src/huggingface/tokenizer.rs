use std::path::Path;

use super::PretrainedError;

/// Tokenizer of a pretrained model, from its `tokenizer.json`.
pub struct Tokenizer(tokenizers::Tokenizer);

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer({} tokens)", self.0.get_vocab_size(true))
    }
}

impl Tokenizer {
    /// Reads a `tokenizer.json`; errors report it as `path`. Its tokens must all be below `vocabulary`. Truncation and padding
    /// that the file asks for are disabled.
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
        let most = tokenizer.get_vocab(true).into_values().max().unwrap_or(0);
        if most as usize >= vocabulary {
            return Err(malformed(format!(
                "has a token {most}, config.json has a vocabulary of {vocabulary}: another model's tokenizer"
            )));
        }
        Ok(Self(tokenizer))
    }

    /// Returns the tokens of a text, with the special tokens that the model expects.
    ///
    /// # Errors
    /// Returns an error when the tokenizer cannot process the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, PretrainedError> {
        let encoding = self.0.encode_fast(text, true).map_err(input)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Returns the text of tokens, without special tokens.
    ///
    /// # Errors
    /// Returns an error when the tokenizer cannot decode the tokens.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, PretrainedError> {
        self.0.decode(tokens, true).map_err(input)
    }

    /// Returns a function that decodes tokens one by one, each in time that does not grow with their number. It returns the text
    /// that a token completes, `None` within a character.
    pub(super) fn decode_each(
        &self,
    ) -> impl FnMut(u32) -> Result<Option<String>, PretrainedError> + '_ {
        let mut stream = self.0.decode_stream(true);
        move |token| stream.step(token).map_err(input)
    }
}

fn input(error: tokenizers::Error) -> PretrainedError {
    PretrainedError::Input(error.to_string())
}
