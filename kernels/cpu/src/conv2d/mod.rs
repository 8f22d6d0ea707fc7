//! Convolutions of images `[batch, channels, height, width]` with packed kernels.

mod inside;
pub(crate) mod line;
mod packed;
mod planes;
mod strips;

pub(crate) use inside::inside;
pub(crate) use packed::PLANES;
pub use packed::conv2d;
pub(crate) use planes::Planes;
pub(crate) use strips::{shares, strips};
