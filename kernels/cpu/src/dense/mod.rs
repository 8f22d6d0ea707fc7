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

pub use attention::Attention;
pub use batch_norm::{BatchNorm, Statistics};
pub use conv2d::DenseConv2d;
pub use elementwise::{Function, Rows, apply};
pub use heads::Heads;
pub use lstm_sequence::Sequence;
pub use rms_norm::rms_norm;
pub use rotary::turned;
