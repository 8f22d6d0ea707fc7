//! Resolves the names used inside a kernel.

use std::collections::HashMap;

use super::{Filled, Reg, Special, Text};

pub(super) fn special(word: &str) -> Option<Filled> {
    let (name, axis) = word.split_once('.').unwrap_or((word, "x"));
    let axis = ["x", "y", "z"].iter().position(|a| *a == axis)?;
    Some(Filled::By(match name {
        "%tid" => Special::Thread(axis),
        "%ntid" => Special::Threads(axis),
        "%ctaid" => Special::Block(axis),
        "%nctaid" => Special::Blocks(axis),
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%lanemask_lt" => Special::LanesBelow,
        "%lanemask_le" => Special::LanesUpTo,
        "%lanemask_gt" => Special::LanesAbove,
        "%lanemask_ge" => Special::LanesFrom,
        "%dynamic_smem_size" => Special::DynamicShared,
        // The clock does not advance: code that waits for a duration also waits for an event.
        "%globaltimer" => return Some(Filled::With(0)),
        _ => return None,
    }))
}
/// A kernel while it is being parsed.
pub(super) struct Body {
    pub(super) text: Text,
    pub(super) scopes: Vec<HashMap<String, Reg>>,
    filled: HashMap<Filled, Reg>,
}

impl Body {
    pub(super) fn new(globals: &HashMap<String, Filled>) -> Self {
        let mut body =
            Self { text: Text::default(), scopes: vec![HashMap::new()], filled: HashMap::new() };
        for (name, filled) in globals {
            body.symbol(name, *filled);
        }
        body
    }

    pub(super) fn register(&mut self, name: String) -> Reg {
        let reg = self.text.registers as Reg;
        self.text.registers += 1;
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, reg);
        }
        reg
    }

    pub(super) fn fill(&mut self, filled: Filled) -> Reg {
        if let Some(reg) = self.filled.get(&filled) {
            return *reg;
        }
        let reg = self.text.registers as Reg;
        self.text.registers += 1;
        self.text.filled.push((reg, filled));
        self.filled.insert(filled, reg);
        reg
    }

    pub(super) fn symbol(&mut self, name: &str, filled: Filled) {
        let reg = self.fill(filled);
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_string(), reg);
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<Reg> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name).copied())
    }
}
