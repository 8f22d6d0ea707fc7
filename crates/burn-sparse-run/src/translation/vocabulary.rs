use std::collections::HashMap;
use std::fmt;

use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, NormalizerWrapper, TokenizerBuilder, TokenizerImpl};

/// Token that pads the shorter sentences of a batch.
pub(crate) const PAD: i32 = 0;
/// Token that begins a sentence.
pub(crate) const BEGIN: i32 = 1;
/// Token that ends a sentence.
pub(crate) const END: i32 = 2;

const SPECIAL: [&str; 3] = ["<pad>", "<s>", "</s>"];

/// Subword vocabulary learned from sentences: byte pair encoding (Sennrich et al., 2016) of bytes, so that any text can
/// be encoded and decodes to itself, except for leading and trailing spaces and text spelled like a special token. The
/// same sentences give the same tokens.
pub(crate) struct Vocabulary {
    tokenizer: TokenizerImpl<BPE, NormalizerWrapper, ByteLevel, ByteLevel, ByteLevel>,
}

impl Vocabulary {
    /// Learns a vocabulary of `size` tokens, or fewer if the sentences do not have that many.
    pub(crate) fn learn<'a>(
        sentences: impl Iterator<Item = &'a str> + Send,
        size: usize,
    ) -> Result<Self, tokenizers::Error> {
        let bytes = ByteLevel::new(true, false, true);
        let mut tokenizer = TokenizerBuilder::default()
            .with_model(BPE::default())
            .with_normalizer(None)
            .with_pre_tokenizer(Some(bytes))
            .with_post_processor(None)
            .with_decoder(Some(bytes))
            .build()?;
        let mut trainer = BpeTrainer::builder()
            .vocab_size(size)
            .special_tokens(SPECIAL.map(|token| AddedToken::from(token, true)).into())
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .show_progress(false)
            .build();
        tokenizer.train(&mut trainer, sentences)?;
        Ok(Self { tokenizer })
    }

    /// Returns the tokens of a sentence, followed by [`END`].
    pub(crate) fn encode(&self, sentence: &str) -> Result<Vec<i32>, tokenizers::Error> {
        let encoding = self.tokenizer.encode_fast(sentence, false)?;
        let ids = encoding.get_ids().iter().map(|&id| id as i32);
        Ok(ids.chain([END]).collect())
    }

    /// Decodes tokens up to the first [`END`] into a sentence.
    pub(crate) fn decode(&self, tokens: &[i32]) -> Result<String, tokenizers::Error> {
        let sentence = tokens.iter().take_while(|&&token| token != END);
        let ids: Vec<u32> = sentence.filter_map(|&token| u32::try_from(token).ok()).collect();
        Ok(self.tokenizer.decode(&ids, true)?.trim().to_string())
    }

    /// Returns all tokens with their ids.
    pub(crate) fn tokens(&self) -> HashMap<String, u32> {
        self.tokenizer.get_vocab(true)
    }
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vocabulary({} tokens)", self.tokens().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENTENCES: [&str; 4] = [
        "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
        "Two young, White males are outside near many bushes.",
        "Mehrere Männer mit Schutzhelmen bedienen ein Antriebsradsystem.",
        "Several men in hard hats are operating a giant pulley system.",
    ];

    #[test]
    fn any_text_comes_back_whole_and_ends_where_it_says() {
        let vocabulary = Vocabulary::learn(SENTENCES.into_iter(), 300).unwrap();
        for text in [SENTENCES[0], "völlig Neues: 雪, ½ – \u{1f600}!", "", "a  b"] {
            let mut tokens = vocabulary.encode(text).unwrap();
            assert_eq!(tokens.last(), Some(&END));
            assert!(tokens.iter().all(|&token| (0..300).contains(&token)), "{tokens:?}");
            tokens.extend([PAD, BEGIN, 77]);
            assert_eq!(vocabulary.decode(&tokens).unwrap(), text);
        }
        let known = vocabulary.encode(SENTENCES[0]).unwrap().len();
        assert!(known < SENTENCES[0].len() * 3 / 4, "{known} tokens");
    }

    #[test]
    fn learning_again_gives_the_same_tokens_and_special_ones_stand_first() {
        let learn = || Vocabulary::learn(SENTENCES.into_iter(), 320).unwrap().tokens();
        let tokens = learn();
        assert_eq!(tokens, learn());
        assert_eq!(SPECIAL.map(|token| tokens[token] as i32), [PAD, BEGIN, END]);
        // A text with fewer tokens than `size` is not an error.
        assert!(Vocabulary::learn(["ab"].into_iter(), 5000).unwrap().tokens().len() < 270);
    }
}
