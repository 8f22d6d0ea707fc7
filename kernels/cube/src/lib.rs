//! Sparse linear kernels in CubeCL, for all of its runtimes.
//!
//! Computes `y [n, rows] = activation(x [n, cols] · Wᵀ + bias)` with a packed `W`: [`grouped`] for Shfl-BW and
//! related patterns, [`tiled`] for Balanced Sparsity and rows of any kind. Values have the activations' dtype; sums are f32.
//!
//! Internally, large batches are *feature-major*, `[cols][pitch]`: a kept column is then one contiguous row of
//! tokens, which any number of outputs can share and adjacent lanes can load together. [`transpose`] converts to
//! and from Burn's token-major `[n, cols]`; if the neighboring operation is feature-major too, [`Call`] states
//! this and the transposition is skipped.
//!
//! This crate does not depend on Burn: operands are [`Buffer`]s of a CubeCL client, checked by the caller.

mod buffer;
mod candidates;
pub mod entries;
mod grid;
pub mod grouped;
pub mod masked;
#[cfg(feature = "offline")]
pub mod offline;
mod reduce;
#[cfg(feature = "offline")]
mod stand_in;
mod store;
pub mod tensor_core;
pub mod tiled;
pub mod transpose;

pub use buffer::{Buffer, Call, Major, Operands};
pub use store::{Activation, Store};
