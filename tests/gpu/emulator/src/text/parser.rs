//! Parses kernels, their scopes and their statements.

use std::collections::HashMap;

use super::names::{Body, special};
use super::tokens::{Token, tokens};
use super::{Argument, Filled, Reg, Statement, Text};
use crate::machine::window::PARAM;

/// Parses all kernels of a module, keyed by name.
pub(crate) fn kernels(text: &str) -> Result<HashMap<String, Text>, String> {
    let tokens = tokens(text);
    let mut parser = Parser { tokens: &tokens, at: 0, globals: HashMap::new() };
    let mut kernels = HashMap::new();
    while parser.at < tokens.len() {
        match parser.peek() {
            ".entry" => {
                parser.at += 1;
                let name = parser.next().to_string();
                kernels.insert(name, parser.entry()?);
            }
            ".func" => return Err(parser.error("functions are not emulated")),
            ".global" | ".const" => parser.global()?,
            ".shared" => parser.extern_shared()?,
            ".version" | ".target" | ".address_size" | ".file" | ".section" => parser.skip_line(),
            _ => parser.at += 1,
        }
    }
    Ok(kernels)
}

pub(super) struct Parser<'a> {
    pub(super) tokens: &'a [Token<'a>],
    pub(super) at: usize,
    /// Variables declared outside kernels, visible to all of them.
    pub(super) globals: HashMap<String, Filled>,
}

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> &'a str {
        self.tokens.get(self.at).map_or("", |token| token.text)
    }

    pub(super) fn next(&mut self) -> &'a str {
        self.at += 1;
        self.tokens.get(self.at - 1).map_or("", |token| token.text)
    }

    pub(super) fn line(&self) -> u32 {
        self.tokens.get(self.at.min(self.tokens.len().saturating_sub(1))).map_or(0, |t| t.line)
    }

    pub(super) fn error(&self, what: &str) -> String {
        format!("line {}: {what}", self.line())
    }

    pub(super) fn expect(&mut self, text: &str) -> Result<(), String> {
        let found = self.peek();
        if found != text {
            return Err(self.error(&format!("expected {text:?}, found {found:?}")));
        }
        self.at += 1;
        Ok(())
    }

    /// Skips the rest of the current line, e.g. `.version 9.0`.
    pub(super) fn skip_line(&mut self) {
        let line = self.line();
        while self.at < self.tokens.len() && self.line() == line {
            self.at += 1;
        }
    }

    pub(super) fn entry(&mut self) -> Result<Text, String> {
        let mut body = Body::new(&self.globals);
        self.expect("(")?;
        let mut end = 0;
        while self.peek() != ")" {
            self.expect(".param")?;
            let (name, bytes, align, _) = self.variable()?;
            let at = usize::next_multiple_of(end, align);
            end = at + bytes;
            body.text.parameters.push((bytes, at));
            body.symbol(name, Filled::With(PARAM + at as u64));
            self.at += usize::from(self.peek() == ",");
        }
        self.at += 1;
        while self.peek() != "{" {
            if self.at >= self.tokens.len() {
                return Err(self.error("a kernel without a body"));
            }
            self.at += 1;
        }
        self.scope(&mut body)?;
        Ok(body.text)
    }

    pub(super) fn scope(&mut self, body: &mut Body) -> Result<(), String> {
        self.expect("{")?;
        body.scopes.push(HashMap::new());
        loop {
            match self.peek() {
                "" => return Err(self.error("the text ends inside a kernel")),
                "}" => break,
                "{" => self.scope(body)?,
                ".reg" => self.registers(body)?,
                ".shared" | ".local" => self.memory(body)?,
                ".loc" => self.skip_line(),
                ".pragma" => while !["", ";"].contains(&self.next()) {},
                word if self.tokens.get(self.at + 1).is_some_and(|t| t.text == ":") => {
                    body.text.labels.insert(word.to_string(), body.text.statements.len());
                    self.at += 2;
                }
                _ => {
                    let statement = self.statement(body)?;
                    body.text.statements.push(statement);
                }
            }
        }
        self.at += 1;
        body.scopes.pop();
        Ok(())
    }

    pub(super) fn statement(&mut self, body: &mut Body) -> Result<Statement, String> {
        let line = self.line();
        let mut guard = None;
        if self.peek() == "@" {
            self.at += 1;
            let expected = self.peek() != "!";
            self.at += usize::from(!expected);
            let name = self.next();
            guard = Some((body.find(name).ok_or_else(|| self.error(name))?, expected));
        }
        let opcode = self.next().to_string();
        let mut arguments = Vec::new();
        while self.peek() != ";" {
            arguments.push(self.argument(body, opcode.starts_with("bra"))?);
            self.at += usize::from(self.peek() == ",");
        }
        self.at += 1;
        Ok(Statement { guard, opcode, arguments, line })
    }

    pub(super) fn argument(&mut self, body: &mut Body, branch: bool) -> Result<Argument, String> {
        match self.peek() {
            "{" => {
                self.at += 1;
                let mut list = Vec::new();
                while self.peek() != "}" {
                    list.push(self.argument(body, false)?);
                    self.at += usize::from(self.peek() == ",");
                }
                self.at += 1;
                Ok(Argument::List(list))
            }
            "[" => {
                self.at += 1;
                let base = self.value(body)?;
                let mut offset = 0;
                if self.peek() == "+" {
                    self.at += 1;
                    offset = self.number()? as i64;
                } else if self.peek() == "-" {
                    offset = self.number()? as i64;
                }
                if self.peek() != "," {
                    self.expect("]")?;
                    return Ok(Argument::Address(base, offset));
                }
                self.at += 1;
                let Argument::List(at) = self.argument(body, false)? else {
                    return Err(self.error("a tensor map without coordinates"));
                };
                self.expect("]")?;
                Ok(Argument::Tensor(base, offset, at))
            }
            "!" => {
                self.at += 1;
                Ok(Argument::Not(self.value(body)?))
            }
            "_" => {
                self.at += 1;
                self.pair(None, body)
            }
            word if branch => {
                self.at += 1;
                Ok(Argument::Label(word.to_string()))
            }
            _ => {
                let first = self.value(body)?;
                self.pair(Some(first), body)
            }
        }
    }

    /// Parses the optional second part of `d|p`.
    pub(super) fn pair(&mut self, first: Option<Reg>, body: &mut Body) -> Result<Argument, String> {
        if self.peek() != "|" {
            return Ok(first.map_or(Argument::Nothing, Argument::Reg));
        }
        self.at += 1;
        if self.peek() == "_" {
            self.at += 1;
            return Ok(Argument::Pair(first, None));
        }
        Ok(Argument::Pair(first, Some(self.value(body)?)))
    }

    /// Parses a register, a variable's address, or a number; returns the register that holds it.
    pub(super) fn value(&mut self, body: &mut Body) -> Result<Reg, String> {
        let word = self.peek();
        if let Some(reg) = body.find(word) {
            self.at += 1;
            return Ok(reg);
        }
        if word.starts_with('%') {
            let special = special(word).ok_or_else(|| self.error(&format!("register {word}")))?;
            self.at += 1;
            return Ok(body.fill(special));
        }
        // The only named constant of PTX.
        if word == "WARP_SZ" {
            self.at += 1;
            return Ok(body.fill(Filled::With(32)));
        }
        let number = self.number()?;
        Ok(body.fill(Filled::With(number)))
    }
}
