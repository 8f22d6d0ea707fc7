//! The machine that executes kernels: memories, warps and blocks.

mod access;
pub(crate) mod counts;
mod execute;
pub(crate) mod global;
mod launch;
pub(crate) mod mbarrier;
pub(crate) mod shared;
pub(crate) mod tensor_map;
pub(crate) mod warp;
pub(crate) mod window;

pub(crate) use launch::{Grid, launch};
