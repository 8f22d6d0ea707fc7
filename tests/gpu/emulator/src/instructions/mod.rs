//! Instructions: decoded once per kernel, then executed.

pub(crate) mod arithmetic;
pub(crate) mod atomic;
pub(crate) mod bulk;
pub(crate) mod convert;
mod decode;
pub(crate) mod exchange;
pub(crate) mod fragment;
pub(crate) mod matrix;
pub(crate) mod mbarrier;
mod op;
pub(crate) mod value;
pub(crate) mod wgmma;

pub(crate) use decode::decode;
pub(crate) use op::{Address, Instruction, Kernel, Op};
