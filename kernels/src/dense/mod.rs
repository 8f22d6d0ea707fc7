//! Dense operators, as honest baselines and for the layers between sparse ones: convolution, batch normalization, and the
//! LSTM in training. They replace Burn's where Burn's are slow on a CPU.

mod batch_norm;
mod conv2d;
mod kernels;
mod lstm_sequence;

pub use batch_norm::{BatchNormalized, batch_norm_relu, batch_norm_relu_train};
pub use conv2d::dense_conv2d;
pub use lstm_sequence::lstm_sequence;
