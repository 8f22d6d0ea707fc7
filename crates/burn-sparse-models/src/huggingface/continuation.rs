use super::{PretrainedError, Tokenizer};

/// Number of the prompt's last tokens that are decoded before those generated: no character has more.
const BEFORE: usize = 4;

/// Text that generated tokens add to a prompt, in pieces of whole characters.
pub(super) struct Continuation<'a> {
    tokenizer: &'a Tokenizer,
    next: Box<dyn FnMut(u32) -> Result<Option<String>, PretrainedError> + 'a>,
    /// Tokens that are not part of a piece yet.
    held: Vec<u32>,
}

impl<'a> Continuation<'a> {
    /// Starts after a prompt. Decoders remove a space that begins a text, and a character may begin in the prompt, so its last
    /// tokens are decoded too.
    pub(super) fn new(tokenizer: &'a Tokenizer, prompt: &[u32]) -> Result<Self, PretrainedError> {
        let mut next = tokenizer.decode_each();
        for &token in &prompt[prompt.len().saturating_sub(BEFORE)..] {
            next(token)?;
        }
        Ok(Self { tokenizer, next: Box::new(next), held: Vec::new() })
    }

    /// Adds a token; returns the text that it completes, `None` within a character.
    pub(super) fn push(&mut self, token: u32) -> Result<Option<String>, PretrainedError> {
        self.held.push(token);
        let piece = (self.next)(token)?;
        if piece.is_some() {
            self.held.clear();
        }
        Ok(piece)
    }

    /// Returns the text of a last, incomplete character.
    pub(super) fn finish(self) -> Result<String, PretrainedError> {
        self.tokenizer.decode(&self.held)
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
        let mut continuation = Continuation::new(&tokenizer, prompt).unwrap();
        let pieces = tokens.iter().map(|&token| continuation.push(token).unwrap()).collect();
        (pieces, continuation.finish().unwrap())
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
