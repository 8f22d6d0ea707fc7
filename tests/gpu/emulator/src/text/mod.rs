//! PTX text as kernels: every name is resolved, nothing is decoded yet.
//!
//! Constants and special registers become registers of their own, filled when a warp begins, so that an
//! operand is always a register.

mod names;
mod parser;
mod tokens;
mod variables;

use std::collections::HashMap;

pub(crate) use parser::kernels;
pub(crate) use variables::size_of;

/// A register's number.
pub(crate) type Reg = u32;

/// Registers that the hardware fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    /// `%tid`, by axis.
    Thread(usize),
    /// `%ntid`.
    Threads(usize),
    /// `%ctaid`.
    Block(usize),
    /// `%nctaid`.
    Blocks(usize),
    Lane,
    Warp,
    /// `%lanemask_lt` and its kin.
    LanesBelow,
    LanesUpTo,
    LanesAbove,
    LanesFrom,
    /// `%dynamic_smem_size` and the like: numbers that a launch decides.
    DynamicShared,
}

/// What a register holds when a warp begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Filled {
    With(u64),
    By(Special),
    /// The address of the launch's own shared memory, behind what the kernel declares, with this alignment.
    DynamicShared(usize),
}

/// An operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Argument {
    Reg(Reg),
    /// `!p`.
    Not(Reg),
    /// `d|p`.
    Pair(Option<Reg>, Option<Reg>),
    /// `_`: a result that nobody wants.
    Nothing,
    List(Vec<Argument>),
    /// `[base + offset]`.
    Address(Reg, i64),
    /// `[map + offset, {coordinates}]`.
    Tensor(Reg, i64, Vec<Argument>),
    Label(String),
}

/// One instruction.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    /// Executed only where this is true (or false).
    pub guard: Option<(Reg, bool)>,
    pub opcode: String,
    pub arguments: Vec<Argument>,
    pub line: u32,
}

/// One `.entry`.
#[derive(Debug, Default)]
pub(crate) struct Text {
    /// Size of each parameter and its place among them, in bytes.
    pub parameters: Vec<(usize, usize)>,
    pub filled: Vec<(Reg, Filled)>,
    pub registers: usize,
    /// Shared memory that the kernel declares, in bytes.
    pub shared: usize,
    /// Local memory of a thread, in bytes.
    pub local: usize,
    pub statements: Vec<Statement>,
    /// The statement that a label stands before.
    pub labels: HashMap<String, usize>,
}
