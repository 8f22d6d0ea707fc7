//! Native CPU kernels on slices, f32 sums.
//!
//! For many tokens, vectors run along tokens ([`tiles`]); for a few tokens and for balanced weights, activations stay
//! token-major ([`tokens_major`]).

#![allow(
    clippy::needless_range_loop,
    reason = "register tiles index several arrays by one counter, unrolled"
)]

pub(crate) mod conv2d;
pub(crate) mod gemm;
pub(crate) mod gradient;
pub(crate) mod int8;
mod kernel;
pub(crate) mod lstm_cell;
pub(crate) mod masked;
pub(crate) mod parallel;
mod peak;
pub(crate) mod polynomials;
mod run;
pub(crate) mod simd;
mod store;
mod tiles;
mod tokens_major;
mod value;
pub(crate) mod weight;

pub(crate) use conv2d::conv2d;
pub(crate) use kernel::CpuKernel;
pub use peak::peak_gflops;
pub(crate) use run::run;
pub(crate) use simd::Isa;
pub(crate) use store::Store;
pub(crate) use value::{Value, reads};
pub(crate) use weight::Weight;

#[cfg(test)]
mod tests;
