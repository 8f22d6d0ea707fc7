//! Sparse linear kernels for Burn.
//!
//! [`SparseOps`] is a Burn backend extension: one operator `y = x · Wᵀ + b` on a packed `W`, its
//! gradients, and the masking of a dense weight. [`Layout`] says how `W` is packed, [`select()`] which
//! kernel runs and why, so that nobody has to guess whether a sparse kernel ran.
//!
//! | layout | patterns | kernel on Flex |
//! |---|---|---|
//! | grouped | shfl-bw, vector-wise, block-wise | `tiles`: dense register tiles over gathered columns; `decode`, up to 8 tokens: weights streamed once |
//! | balanced | balanced, n-of-m | `rows`: vectors along tokens, fixed counts; `look-up`: vectors along rows, each picks its own inputs of a block |
//! | rows | unstructured | `rows`: vectors along tokens; `gather`, up to 8 tokens: vectors along the weights of a row |
//!
//! [`sparse_conv2d`] runs `tiles` and `rows` on pictures, [`PackedTensors::stack`] makes one weight of several that
//! read the same input, [`lstm_cell`] is what follows an LSTM's products, and [`lstm_sequence`] trains a dense one, as
//! [`dense_conv2d`] does a dense convolution and [`batch_norm_relu_train`] what follows it ([`batch_norm_relu`] when
//! nothing is trained).
//!
//! Which of them runs, or the dense side where that is faster (Burn's product, [`dense_conv2d`]), follows from the costs
//! of the machine, measured once. Values may be kept in bf16 or f16 ([`PackedTensors::cast`]); sums are f32.
//!
//! On GPUs (features `wgpu`, `vulkan`, `cuda`) the kernels of `burn-sparse-cube` run in the same layouts:
//! portable ones for all three, tensor cores for 16-bit grouped weights on CUDA.

mod autodiff;
mod batch_norm;
mod checked;
mod choice;
mod conv2d;
#[cfg(feature = "cubecl-backend")]
mod cube;
mod dense_conv2d;
mod flex;
mod functions;
mod kernel_name;
mod layout;
mod lstm;
mod ops;
mod packed_tensors;
mod place;
mod select;
mod spec;
mod stack;

pub use batch_norm::{BatchNormalized, batch_norm_relu, batch_norm_relu_train};
pub use checked::Checked;
pub use choice::{Choice, Predicted, Reason};
pub use conv2d::{Window, sparse_conv2d};
pub use dense_conv2d::dense_conv2d;
pub use flex::peak_gflops;
pub use functions::{
    drawn, masked, sparse_linear, sparse_linear_features_major, sparse_linear_with,
};
pub use kernel_name::KernelName;
pub use layout::{Activation, Layout};
pub use lstm::{lstm_cell, lstm_sequence};
pub use ops::SparseOps;
pub use packed_tensors::PackedTensors;
pub use place::Place;
pub use select::{select, select_conv2d};
pub use spec::Spec;
