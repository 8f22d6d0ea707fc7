//! CPU kernels of the dense operators, on slices.

mod batch_norm;
mod channel;
mod conv2d;
mod lstm_sequence;
mod pointwise;
mod windows;

pub(super) use batch_norm::{BatchNorm, Statistics};
pub(super) use conv2d::DenseConv2d;
pub(super) use lstm_sequence::Sequence;
