//! Sparse linear kernels for CPUs, on slices, with f32 sums or exact sums of 8-bit integers.
//!
//! [`run()`] multiplies tokens with a [`PackedWeight`]: for many tokens, vectors run along tokens (`tiles`); for a few tokens and
//! for balanced weights, activations stay token-major (`tokens_major`). [`gradient`] holds the gradients, [`int8`] weights and
//! inputs in 8 bits, [`dense`] the operators between sparse ones. Every kernel exists for every [`Isa`], and is compared with
//! sums in float64 on each that the CPU has.
//!
//! This crate does not depend on Burn: `burn-sparse-kernels` builds Burn's operators from it.

#![allow(
    clippy::needless_range_loop,
    reason = "register tiles index several arrays by one counter, unrolled"
)]

mod conv2d;
pub mod dense;
mod gemm;
pub mod gradient;
pub mod int8;
mod kernel;
mod layout;
mod lstm_cell;
pub mod masked;
mod parallel;
mod peak;
mod polynomials;
mod run;
mod simd;
mod size;
mod store;
mod tiles;
mod tokens_major;
mod value;
mod weight;
mod window;

pub use conv2d::conv2d;
pub use kernel::CpuKernel;
pub use layout::{Activation, Layout, PackedShape, TILE_ROWS};
pub use lstm_cell::{Step, lstm_cell};
pub use peak::peak_gflops;
pub use run::run;
pub use simd::Isa;
pub use store::Store;
pub use weight::{PackedWeight, Parts, Values, padded};
pub use window::Window;

pub(crate) use value::Value;
pub(crate) use weight::Weight;
