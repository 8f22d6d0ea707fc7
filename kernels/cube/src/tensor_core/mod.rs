//! Shfl-BW on tensor cores: 16-bit values, f32 sums, features-major inside.
//!
//! A group of `vector` rows is a dense product whose reduction is gathered: `values [kept, vector]` and
//! the rows of `x [cols][pitch]` that its ids name are both reduction-major, which is what transposing
//! loads of fragments want. So no value is stored in any other order than the file's.

mod copies;
mod forward;
mod instructions;
mod mma;
mod output;
mod ring;
mod trial;
mod warpgroup;
mod wgmma;

#[cfg(feature = "offline")]
pub(crate) use forward::offline;

pub use forward::{Kernel, forward};
pub use instructions::Engine;
pub use mma::Tile;
pub use trial::{proves_itself, trial};
pub use wgmma::WideTile;
