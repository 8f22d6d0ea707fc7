//! Sparse linear kernels in CubeCL, for every runtime it has.
//!
//! `y [n, rows] = activation(x [n, cols] · Wᵀ + bias)` with `W` packed: [`grouped`] for Shfl-BW and its
//! relatives, [`balanced`] for Balanced Sparsity. Values are of the activations' type, sums are f32.
//!
//! Inside, large batches are *features-major*, `[cols][pitch]`: a kept column is then one contiguous row
//! of tokens, which any number of outputs can use and every lane can load side by side. [`transpose`]
//! makes that of Burn's tokens-major `[n, cols]` and back; where a neighbour speaks it too, [`Call`] says so and neither
//! is transposed.
//!
//! Nothing here knows Burn: operands are [`Buffer`]s of a CubeCL client, checked by the caller.

pub mod balanced;
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
pub mod transpose;

pub use buffer::{Buffer, Call, Major, Operands};
pub use store::{Activation, Store};
