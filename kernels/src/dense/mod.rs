//! Dense operators, as honest baselines and for the layers between sparse ones: attention, GELU, Llama's norm and gate,
//! convolution, batch normalization, and the LSTM in training. They replace Burn's operators that are slow on a CPU.

mod attention;
mod batch_norm;
mod conv2d;
mod gelu;
mod linear;
mod llama;
mod lstm_sequence;

pub use attention::{Unseen, attention};
pub use batch_norm::{BatchNormalized, batch_norm_relu, batch_norm_relu_train};
pub use conv2d::dense_conv2d;
pub use gelu::gelu;
pub use linear::dense_linear;
pub use llama::{rms_norm, rotary, swiglu};
pub use lstm_sequence::lstm_sequence;
