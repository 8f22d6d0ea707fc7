//! Native CPU kernels on Burn's Flex backend, f32.
//!
//! Many tokens become the lanes of vectors ([`tiles`]); a few, and those of balanced weights, are multiplied as they lie
//! ([`tokens_major`]).

#![allow(
    clippy::needless_range_loop,
    reason = "register tiles index several arrays by one counter, unrolled"
)]

mod backend;
mod conv2d;
mod cost;
mod kernel;
pub(crate) mod lstm;
mod parallel;
mod peak;
mod product;
mod simd;
mod smooth;
mod store;
mod tiles;
mod tokens_major;
mod training;
mod value;
mod weight;

pub(crate) use conv2d::DenseConv2d;
#[cfg(feature = "cubecl-backend")]
pub(crate) use cost::measures_nothing;
pub(crate) use cost::{Chosen, Matrix, choose, choose_conv2d};
pub(crate) use kernel::Kernel;
pub use peak::peak_gflops;
pub(crate) use simd::Isa;
pub(crate) use store::Store;
pub(crate) use training::batch_norm::{BatchNorm, Statistics};
pub(crate) use value::{Value, reads};
pub(crate) use weight::Weight;

pub(crate) use backend::{convolve, on_flex, tensor};

use parallel::Shared;
use tiles::Lines;
use tokens_major::{decode, gather, look_up};

/// `y [n, rows] = activation(x [n, cols] · Wᵀ + bias)`.
///
/// # Panics
/// When slices do not have these lengths; the callers have checked them.
pub(crate) fn run<V: Value>(
    isa: Isa,
    kernel: Kernel,
    weight: &Weight<'_, V>,
    x: &[f32],
    store: Store<'_>,
) -> Vec<f32> {
    let n = x.len() / weight.cols;
    assert_eq!(x.len(), n * weight.cols);
    assert!(store.bias.is_none_or(|bias| bias.len() == weight.rows));
    let mut y = Vec::with_capacity(n * weight.rows);
    if n > 0 {
        assert!(Kernel::candidates(weight.layout, n, isa).any(|candidate| candidate == kernel));
        let out = Shared::spare(&mut y);
        match kernel {
            Kernel::Decode => decode::run(isa, weight, x, store, out),
            Kernel::LookUp => look_up::run(isa, weight, x, store, out),
            Kernel::Gather => gather::run(isa, weight, x, store, out),
            Kernel::Tiles | Kernel::Rows => {
                let (cols, rows) = (weight.cols, weight.rows);
                tiles::run(isa, weight, &Lines { x, cols, y: out, rows }, store);
            }
        }
    }
    // SAFETY: every kernel writes every row of every token; zeroing first would touch all of it twice.
    unsafe { y.set_len(n * weight.rows) };
    y
}

#[cfg(test)]
mod tests;
