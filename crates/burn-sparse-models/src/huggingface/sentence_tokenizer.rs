use super::{Folder, PretrainedError, Tokenizer};

/// Tokenizer of a sentence embedder, with the largest number of tokens that the model accepts.
#[derive(Debug)]
pub struct SentenceTokenizer {
    tokenizer: Tokenizer,
    context: usize,
    lowers_case: bool,
}

impl SentenceTokenizer {
    /// Reads the tokenizer of a folder.
    ///
    /// # Errors
    /// Returns an error when a file cannot be read.
    pub fn read(folder: &Folder) -> Result<Self, PretrainedError> {
        Ok(Self {
            tokenizer: folder.tokenizer()?,
            context: folder.longest_sentence()?,
            lowers_case: folder.lowers_case()?,
        })
    }

    /// Returns the tokens of a text, truncated to the model's limit; the last token, which ends a text, is kept.
    ///
    /// # Errors
    /// Returns an error when the tokenizer cannot process the text, or finds no tokens in it.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, PretrainedError> {
        let mut tokens = match self.lowers_case {
            true => self.tokenizer.encode(&text.to_lowercase())?,
            false => self.tokenizer.encode(text)?,
        };
        if let Some(&end) = tokens.last()
            && tokens.len() > self.context
        {
            tokens.truncate(self.context - 1);
            tokens.push(end);
        }
        match tokens.is_empty() {
            true => Err(PretrainedError::Input(format!("no tokens in {text:?}"))),
            false => Ok(tokens),
        }
    }
}
