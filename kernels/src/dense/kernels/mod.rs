//! CPU kernels of the dense operators, on slices.

mod attention;
mod batch_norm;
mod channel;
mod conv2d;
mod elementwise;
mod heads;
mod lstm_sequence;
mod one_query;
mod pointwise;
mod rms_norm;
mod rotary;
mod softmax;
mod windows;

pub(super) use attention::Attention;
pub(super) use batch_norm::{BatchNorm, Statistics};
pub(super) use conv2d::DenseConv2d;
pub(super) use elementwise::{Function, Rows, apply};
pub(super) use heads::Heads;
pub(super) use lstm_sequence::Sequence;
pub(super) use rms_norm::rms_norm;
pub(super) use rotary::turned;
