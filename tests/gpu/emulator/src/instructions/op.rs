//! Decoded kernels.

use super::arithmetic::Alu;
use super::atomic::Atomic;
use super::bulk::Bulk;
use super::convert::Convert;
use super::exchange::Exchange;
use super::fragment::Wmma;
use super::matrix::{LoadMatrix, Mma, StoreMatrix};
use super::mbarrier::Mbarrier;
use super::wgmma::Wgmma;
use crate::machine::window::Space;
use crate::text::{Filled, Reg};

/// A kernel that can be launched.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub name: String,
    /// Size and offset of each parameter, in bytes.
    pub parameters: Vec<(usize, usize)>,
    pub filled: Vec<(Reg, Filled)>,
    pub registers: usize,
    /// Shared memory that the kernel declares, in bytes.
    pub shared: usize,
    /// Local memory per thread, in bytes.
    pub local: usize,
    pub code: Vec<Instruction>,
}

#[derive(Debug)]
pub(crate) struct Instruction {
    pub guard: Option<(Reg, bool)>,
    pub op: Op,
    /// Opcode as written, for error messages.
    pub opcode: String,
    pub line: u32,
}

/// `[base + offset]` in a state space.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address {
    pub space: Space,
    pub base: Reg,
    pub offset: i64,
}

#[derive(Debug)]
pub(crate) enum Op {
    Alu {
        run: Alu,
        to: Reg,
        from: [Reg; 4],
    },
    /// `setp`: the result and its negation, each combined with a third operand if there is one.
    Set {
        compare: Alu,
        from: [Reg; 2],
        join: Option<(Alu, Reg, bool)>,
        to: [Option<Reg>; 2],
    },
    Convert {
        convert: Convert,
        to: Reg,
        from: [Reg; 2],
    },
    /// Converts an address to another window.
    Move {
        to: Reg,
        from: Reg,
        by: u64,
    },
    /// Concatenates parts of `bits` bits, the first in the lowest bits.
    Pack {
        to: Reg,
        from: Vec<Reg>,
        bits: u32,
    },
    Unpack {
        to: Vec<Option<Reg>>,
        from: Reg,
        bits: u32,
    },
    Load {
        from: Address,
        to: Vec<Option<Reg>>,
        bytes: usize,
        signed: bool,
    },
    Store {
        to: Address,
        from: Vec<Reg>,
        bytes: usize,
    },
    Atomic(Atomic),
    Branch(usize),
    Exit,
    Trap,
    /// Barrier of all threads of the block.
    Barrier,
    /// No effect, because this machine preserves the order anyway.
    Fence,
    /// Makes this thread's writes visible to `wgmma` and the bulk copies.
    ProxyFence,
    /// `cp.async`: copies from global to shared memory; the bytes past `read` are zeros.
    Copy {
        to: Address,
        from: Address,
        bytes: usize,
        read: Option<Reg>,
    },
    CopyCommit,
    CopyWait(usize),
    Bulk(Bulk),
    Mbarrier(Mbarrier),
    Exchange(Exchange),
    LoadMatrix(LoadMatrix),
    StoreMatrix(StoreMatrix),
    Mma(Box<Mma>),
    Wmma(Box<Wmma>),
    Wgmma(Box<Wgmma>),
    WgmmaCommit,
    WgmmaWait(usize),
}
