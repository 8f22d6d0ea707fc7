//! Layers whose packed weight runs a sparse kernel; drop-ins for burn-nn's, with the same
//! configuration and the same record. [`batch_norm_relu`] is what stands between two convolutions.

mod attention;
mod batch_norm;
mod conv2d;
mod dispatch;
mod feed_forward;
mod fused;
mod linear;
mod lstm;
mod memory;
mod packed;

pub use attention::{AttentionMask, KeyValues, MultiHeadAttention, MultiHeadAttentionConfig};
pub use batch_norm::batch_norm_relu;
pub use conv2d::{Conv2d, Conv2dConfig};
pub use dispatch::{Dispatched, Input, record_dispatch};
pub use feed_forward::{PositionWiseFeedForward, PositionWiseFeedForwardConfig};
pub use linear::{Activation, Linear, LinearConfig};
pub use lstm::{Gate, Lstm, LstmCell, LstmConfig, LstmState};
pub use packed::{PackInto, Packed};
