//! Splits PTX text into words and punctuation.

/// A word or punctuation character, and the line it is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub text: &'a str,
    pub line: u32,
}

/// Returns `true` for characters of names, opcodes and numbers.
fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_$%.".contains(&byte)
}

/// Returns all tokens; comments are dropped, and a string is one token.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    while at < bytes.len() {
        let from = at;
        let rest = &bytes[at..];
        match bytes[at] {
            b'\n' => line += 1,
            b if b.is_ascii_whitespace() || b == 0 => {}
            b'/' if rest.starts_with(b"//") => {
                at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                continue;
            }
            b'/' if rest.starts_with(b"/*") => {
                let end = text[at..].find("*/").map_or(bytes.len(), |len| at + len + 2);
                line += text[at..end].matches('\n').count() as u32;
                at = end;
                continue;
            }
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += 1;
                }
            }
            b if in_word(b) => {
                // `shared::cta` is one word; `label:` is two tokens.
                while at < bytes.len() && (in_word(bytes[at]) || bytes[at..].starts_with(b"::")) {
                    at += if bytes[at] == b':' { 2 } else { 1 };
                }
                found.push(Token { text: &text[from..at], line });
                continue;
            }
            _ => {}
        }
        at = (at + 1).min(bytes.len());
        if !bytes[from].is_ascii_whitespace() && bytes[from] != 0 {
            found.push(Token { text: &text[from..at], line });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_signs_and_lines_are_told_apart() {
        let found =
            tokens("// no\n@%p1 ld.shared::cta.v2.u32 {%r1, %r2}, [a+-4]; $L_1: /* x\n */ ret;");
        let texts: Vec<&str> = found.iter().map(|token| token.text).collect();
        let expected = "@ %p1 ld.shared::cta.v2.u32 { %r1 , %r2 } , [ a + - 4 ] ; $L_1 : ret ;";
        assert_eq!(texts.join(" "), expected);
        assert_eq!((found[0].line, found.last().map(|token| token.line)), (2, Some(3)));
    }
}
