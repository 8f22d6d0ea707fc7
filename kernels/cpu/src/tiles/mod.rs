//! Kernels on tiles of tokens: `x` is transposed to `[feature][token]`, and outputs `[row][token]` are transposed back.
//! A kept column is one contiguous row of a tile, which any number of outputs can use.

mod grouped;
mod lines;
mod multiply;
mod rows;
mod tile;
mod tile_rows;

pub(crate) use grouped::run as run_groups;
pub(crate) use lines::{Lines, Pack, Unpack};
pub(crate) use multiply::{multiply, run, units, window};
pub(crate) use tile::{Tile, cut, cut_for_all, width};
pub(crate) use tile_rows::{Packed, Shifted, Strided, TileRows};
