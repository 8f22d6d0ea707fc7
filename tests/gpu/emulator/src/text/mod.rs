//! Parses PTX text into kernels: every name is resolved, but nothing is decoded yet.
//!
//! Constants and special registers become ordinary registers that are filled when a warp starts, so that an operand is
//! always a register.

mod names;
mod parser;
mod tokens;
mod variables;

use std::collections::HashMap;

pub(crate) use parser::kernels;
pub(crate) use variables::size_of;

/// Number of a register.
pub(crate) type Reg = u32;

/// Special registers, which the hardware fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    /// `%tid` along the given axis.
    Thread(usize),
    /// `%ntid` along the given axis.
    Threads(usize),
    /// `%ctaid` along the given axis.
    Block(usize),
    /// `%nctaid` along the given axis.
    Blocks(usize),
    Lane,
    Warp,
    /// `%lanemask_lt`; the next three are `%lanemask_le`, `%lanemask_gt` and `%lanemask_ge`.
    LanesBelow,
    LanesUpTo,
    LanesAbove,
    LanesFrom,
    /// `%dynamic_smem_size`, which the launch determines.
    DynamicShared,
}

/// Initial value of a register when a warp starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Filled {
    With(u64),
    By(Special),
    /// Address of the launch's dynamic shared memory, after what the kernel declares, with this alignment.
    DynamicShared(usize),
}

/// Operand of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Argument {
    Reg(Reg),
    /// `!p`.
    Not(Reg),
    /// `d|p`.
    Pair(Option<Reg>, Option<Reg>),
    /// `_`: a discarded result.
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
    /// Predicate register and the value it must have in a lane for the lane to execute the statement.
    pub guard: Option<(Reg, bool)>,
    pub opcode: String,
    pub arguments: Vec<Argument>,
    pub line: u32,
}

/// One `.entry`.
#[derive(Debug, Default)]
pub(crate) struct Text {
    /// Size and offset of each parameter, in bytes.
    pub parameters: Vec<(usize, usize)>,
    pub filled: Vec<(Reg, Filled)>,
    pub registers: usize,
    /// Shared memory that the kernel declares, in bytes.
    pub shared: usize,
    /// Local memory per thread, in bytes.
    pub local: usize,
    pub statements: Vec<Statement>,
    /// Index of the statement that follows each label.
    pub labels: HashMap<String, usize>,
}
