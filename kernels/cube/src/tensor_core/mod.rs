//! Shfl-BW on tensor cores, with 16-bit values, f32 sums, and feature-major activations internally.
//!
//! A group of `vector` rows is a dense product with a gathered reduction: `values [kept, vector]` and the rows of
//! `x [cols][pitch]` that its ids select are both reduction-major, as transposing fragment loads require. Values
//! are therefore stored in the same order as in the file.

mod copies;
mod forward;
mod ids;
mod instructions;
mod mma;
mod output;
mod ring;
mod trial;
mod warpgroup;
mod wgmma;
mod wide_tile;

#[cfg(feature = "offline")]
pub(crate) use forward::offline;

pub use forward::{Kernel, forward};
pub use instructions::Engine;
pub use mma::Tile;
pub use trial::{proves_itself, trial};
pub use wide_tile::WideTile;
