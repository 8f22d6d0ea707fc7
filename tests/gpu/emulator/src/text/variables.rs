//! Parses declarations of registers and memory, and the numbers in them.

use super::Filled;
use super::names::Body;
use super::parser::Parser;

/// Returns the size of a fundamental type in bytes.
pub(crate) fn size_of(ty: &str) -> Option<usize> {
    let bits = ty.trim_start_matches(|c: char| !c.is_ascii_digit());
    match ty.trim_start_matches('.') {
        "pred" => Some(1),
        "f16x2" | "bf16x2" => Some(4),
        _ => bits.parse::<usize>().ok().filter(|bits| bits % 8 == 0).map(|bits| bits / 8),
    }
}

impl<'a> Parser<'a> {
    pub(super) fn number(&mut self) -> Result<u64, String> {
        let negative = self.peek() == "-";
        self.at += usize::from(negative);
        let word = self.next();
        let parsed = match (word.get(..2), word.get(2..)) {
            (Some("0f" | "0F" | "0d" | "0D" | "0x" | "0X"), Some(digits)) => {
                u64::from_str_radix(digits.trim_end_matches(['U', 'u']), 16)
            }
            _ => word.trim_end_matches(['U', 'u']).parse(),
        };
        let number = parsed.map_err(|_| self.error(&format!("{word:?} is not a number")))?;
        Ok(if negative { number.wrapping_neg() } else { number })
    }

    /// Parses what follows the state space, e.g. `.align 16 .b8 name[4][8]`: name, bytes, alignment, bytes of an
    /// element.
    pub(super) fn variable(&mut self) -> Result<(&'a str, usize, usize, usize), String> {
        let (mut align, mut element, mut count) = (1, 1, 1);
        while self.peek().starts_with('.') {
            match self.next() {
                ".align" => align = self.number()? as usize,
                ".ptr" | ".global" | ".shared" | ".const" => {}
                ty => {
                    element = size_of(ty).ok_or_else(|| self.error(&format!("type {ty:?}")))?;
                }
            }
        }
        let name = self.next();
        while self.peek() == "[" {
            self.at += 1;
            count *= if self.peek() == "]" { 0 } else { self.number()? as usize };
            self.expect("]")?;
        }
        Ok((name, element * count, align.max(element), element))
    }

    /// Parses a variable in global or constant memory. It is never freed: modules live as long as the program.
    pub(super) fn global(&mut self) -> Result<(), String> {
        self.at += 1;
        let (name, bytes, _, element) = self.variable()?;
        let mut content = Vec::with_capacity(bytes);
        if self.peek() == "=" {
            self.at += 1;
            let braces = self.peek() == "{";
            self.at += usize::from(braces);
            while !["}", ";"].contains(&self.peek()) {
                content.extend_from_slice(&self.number()?.to_le_bytes()[..element]);
                self.at += usize::from(self.peek() == ",");
            }
            self.at += usize::from(braces);
        }
        self.expect(";")?;
        content.resize(bytes, 0);
        // Stored in 64-bit words so that it is aligned for all types.
        let mut words = vec![0_u64; bytes.div_ceil(8)];
        for (at, byte) in content.into_iter().enumerate() {
            words[at / 8] |= u64::from(byte) << (at % 8 * 8);
        }
        let address = crate::machine::global::constant(words.leak());
        self.globals.insert(name.to_string(), Filled::With(address));
        Ok(())
    }

    /// Parses `.extern .shared .align 16 .b8 name[];`.
    pub(super) fn extern_shared(&mut self) -> Result<(), String> {
        self.at += 1;
        let (name, bytes, align, _) = self.variable()?;
        if bytes > 0 {
            return Err(self.error("shared variables outside kernels are not emulated"));
        }
        self.globals.insert(name.to_string(), Filled::DynamicShared(align));
        self.expect(";")
    }

    /// Parses `.reg .b32 %r<8>, x, y;`.
    pub(super) fn registers(&mut self, body: &mut Body) -> Result<(), String> {
        self.at += 2;
        loop {
            let name = self.next();
            if self.peek() == "<" {
                self.at += 1;
                for i in 0..self.number()? {
                    body.register(format!("{name}{i}"));
                }
                self.expect(">")?;
            } else {
                body.register(name.to_string());
            }
            match self.next() {
                "," => {}
                ";" => return Ok(()),
                other => return Err(self.error(&format!("{other:?} among registers"))),
            }
        }
    }

    /// Parses a `.shared` or `.local` variable.
    pub(super) fn memory(&mut self, body: &mut Body) -> Result<(), String> {
        let shared = self.next() == ".shared";
        let (name, bytes, align, _) = self.variable()?;
        let end = if shared { &mut body.text.shared } else { &mut body.text.local };
        let at = end.next_multiple_of(align);
        *end = at + bytes;
        body.symbol(name, Filled::With(at as u64));
        self.expect(";")
    }
}
