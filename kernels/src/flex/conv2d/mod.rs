//! Convolutions of pictures, `[batch, channels, height, width]`, with packed and with dense kernels.

mod dense;
mod line;
mod packed;
mod planes;
mod pointwise;
mod strips;
mod windows;

pub(crate) use dense::DenseConv2d;
pub(crate) use packed::conv2d;
