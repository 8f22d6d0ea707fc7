use super::{PretrainedError, Tokenizer};

/// Number of the prompt's last tokens that are decoded before those generated: no character has more.
const BEFORE: usize = 4;

/// Number of tokens after which their text is whole, or never will be: a character has at most four bytes.
const MOST: usize = 8;

/// Stands for bytes that are no character.
const INVALID: char = '\u{fffd}';

/// Text that generated tokens add to a prompt, in pieces of whole characters.
pub(super) struct Continuation<'a> {
    tokenizer: &'a Tokenizer,
    /// Tokens whose text is known, and that are decoded with those after them: decoders remove a space that begins a text, and a
    /// character may begin here.
    before: Vec<u32>,
    /// Tokens that are not part of a piece yet.
    held: Vec<u32>,
}

impl<'a> Continuation<'a> {
    /// Starts after a prompt.
    pub(super) fn new(tokenizer: &'a Tokenizer, prompt: &[u32]) -> Self {
        let before = prompt[prompt.len().saturating_sub(BEFORE)..].to_vec();
        Self { tokenizer, before, held: Vec::new() }
    }

    /// Adds a token; returns the text that it completes, `None` within a character.
    pub(super) fn push(&mut self, token: u32) -> Result<Option<String>, PretrainedError> {
        self.held.push(token);
        let piece = self.piece()?;
        if piece.is_empty() || (piece.ends_with(INVALID) && self.held.len() < MOST) {
            return Ok(None);
        }
        self.before = std::mem::take(&mut self.held);
        Ok(Some(piece))
    }

    /// Returns the text of a last, incomplete character.
    pub(super) fn finish(self) -> Result<String, PretrainedError> {
        self.piece()
    }

    /// Returns the text that the tokens add to that of the tokens before them.
    fn piece(&self) -> Result<String, PretrainedError> {
        let before = self.tokenizer.decode(&self.before)?;
        let all = self.tokenizer.decode(&[&self.before[..], &self.held].concat())?;
        // A character that begins before the tokens is complete with them, or bytes before them are no characters with them.
        let known = before.trim_end_matches(INVALID);
        match all.strip_prefix(&before).or_else(|| all.strip_prefix(known)) {
            Some(piece) => Ok(piece.into()),
            None => self.tokenizer.decode(&self.held),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the pieces of `tokens` after a prompt, and what is left at the end. Tokens are `a`, the two bytes of `é`, and ` b`.
    fn pieces(prompt: &[u32], tokens: &[u32]) -> (Vec<Option<String>>, String) {
        let bytes = json!({"version": "1.0", "added_tokens": [],
            "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
            "model": {"type": "BPE", "vocab": {"a": 0, "Ã": 1, "©": 2, "Ġb": 3}, "merges": []}});
        let tokenizer =
            Tokenizer::parse("tokenizer.json".as_ref(), bytes.to_string().as_bytes(), 4).unwrap();
        let mut continuation = Continuation::new(&tokenizer, prompt);
        let pieces = tokens.iter().map(|&token| continuation.push(token).unwrap()).collect();
        (pieces, continuation.finish().unwrap())
    }

    /// Returns the pieces of `tokens` after a prompt, for a tokenizer with tokens for single bytes: 0 to 255 are bytes, 256 is `H`,
    /// 257 is ` c`.
    fn pieces_of_bytes(prompt: &[u32], tokens: &[u32]) -> Vec<Option<String>> {
        let mut vocabulary: serde_json::Map<_, _> =
            (0..256).map(|byte| (format!("<0x{byte:02X}>"), json!(byte))).collect();
        vocabulary.insert("H".into(), json!(256));
        vocabulary.insert("▁c".into(), json!(257));
        let json = json!({"version": "1.0", "added_tokens": [],
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "byte_fallback": true, "vocab": vocabulary, "merges": []}});
        let tokenizer =
            Tokenizer::parse("tokenizer.json".as_ref(), json.to_string().as_bytes(), 258).unwrap();
        let mut continuation = Continuation::new(&tokenizer, prompt);
        tokens.iter().map(|&token| continuation.push(token).unwrap()).collect()
    }

    #[test]
    fn bytes_that_end_a_prompt_are_not_repeated() {
        // A face of four bytes, and the end of the line.
        let prompt = [256, 0xf0, 0x9f, 0x98, 0x80, 0x0a];
        assert_eq!(pieces_of_bytes(&prompt, &[256, 257]), [some("H"), some(" c")]);
    }

    #[test]
    fn a_stray_byte_does_not_end_the_text() {
        let pieces = pieces_of_bytes(&[256], &[0xc3, 0xa9, 0xe2, 257, 256]);
        assert_eq!(pieces[..3], [None, some("é"), None]);
        let rest: String = pieces[3..].iter().flatten().cloned().collect();
        assert!(rest.starts_with('\u{fffd}') && rest.ends_with(" cH"), "{rest}");
        // Nor do bytes that never become a character.
        let pieces = pieces_of_bytes(&[256], &[0xe2; 9]);
        assert!(pieces.iter().flatten().next().is_some());
    }

    fn some(text: &str) -> Option<String> {
        Some(text.into())
    }

    #[test]
    fn a_character_of_several_tokens_is_one_piece() {
        let whole = (vec![None, some("é"), some(" b")], String::new());
        assert_eq!(pieces(&[0], &[1, 2, 3]), whole);
    }

    #[test]
    fn a_character_that_begins_in_the_prompt_is_completed() {
        assert_eq!(pieces(&[0, 1], &[2, 0]), (vec![some("é"), some("a")], String::new()));
    }

    #[test]
    fn nothing_of_the_prompt_is_repeated() {
        assert_eq!(pieces(&[0, 1, 2], &[3]), (vec![some(" b")], String::new()));
        assert_eq!(pieces(&[1, 2, 1, 2, 1, 2], &[3]), (vec![some(" b")], String::new()));
        // Only the second byte of the first character is decoded.
        assert_eq!(pieces(&[1, 2, 1, 2, 0], &[3]), (vec![some(" b")], String::new()));
    }

    #[test]
    fn an_incomplete_last_character_is_left_to_the_end() {
        assert_eq!(pieces(&[0], &[3, 1]), (vec![some(" b"), None], "\u{fffd}".into()));
    }
}
