//! Sparse linear kernels for Burn.
//!
//! [`SparseOps`] is a Burn backend extension: the operator `y = x · Wᵀ + b` with a packed `W`, its gradients, and the
//! masking of a dense weight. [`Layout`] describes how `W` is packed; [`select()`] tells which kernel runs, and why.
//!
//! | layout | patterns | CPU kernels |
//! |---|---|---|
//! | grouped | shfl-bw, vector-wise, block-wise | `tiles`: dense register tiles over gathered columns; `decode`, up to 8 tokens: weights streamed once |
//! | balanced | balanced, n-of-m | `rows`: vectors along tokens, fixed counts; `look-up`: vectors along rows, each of which looks up its own inputs of a block |
//! | rows, reported as `unstructured` | unstructured, hinm | `rows`: vectors along tokens; `gather`, up to 8 tokens: vectors along 16 rows |
//!
//! [`sparse_conv2d`] runs `tiles` and `rows` on images. [`PackedTensors::stack`] joins weights that read the same input.
//! [`lstm_cell`] computes the gates of an LSTM. Dense baselines are separate: [`dense_conv2d`], [`batch_norm_relu`] and
//! [`batch_norm_relu_train`], [`lstm_sequence`].
//!
//! [`quantized_linear`] multiplies inputs in 8 bits with weights in 8 or 4 bits, pruned or not, on the CPU.
//!
//! The choice among kernels, or of a dense operator if that is faster, follows [`Costs`]. Values may be stored in bf16 or
//! f16 ([`PackedTensors::cast`]); sums are f32.
//!
//! On the CPU, the kernels of [`burn_sparse_cpu`] run.
//!
//! On GPUs (features `wgpu`, `vulkan`, `cuda`) the kernels of `burn-sparse-cube` run in the same layouts: portable kernels for
//! all three, tensor cores for 16-bit grouped weights on CUDA.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use burn_sparse_kernels::{Activation, PackedTensors, sparse_linear};
//! use burn_sparse_pattern::{Mask, Packed, Pattern};
//!
//! let mask = Mask::from_bytes(2, 4, &[1, 0, 0, 1, 0, 1, 1, 0])?;
//! let weights = [1., 0., 0., 2., 0., 3., 4., 0.];
//! let packed = Packed::pack(&Pattern::balanced(2), &weights, &mask, None)?;
//! let weight = PackedTensors::from_packed(&packed, &Device::flex());
//! let x = Tensor::<2>::ones([1, 4], &Device::flex());
//! let y = sparse_linear(x, &weight, None, Activation::None);
//! assert_eq!(y.into_data().try_into_vec::<f32>().unwrap(), [3.0, 7.0]);
//! # Ok::<(), burn_sparse_pattern::PatternError>(())
//! ```

mod activation;
mod calibrate;
mod choice;
mod conv2d;
mod cost;
mod dense;
mod flex_tensor;
#[cfg(feature = "cubecl-backend")]
mod gpu;
mod inference;
mod kernel_name;
mod linear;
mod lstm_cell;
mod mask;
mod memo;
mod ops;
mod packed;
mod quantized;
mod select;

pub use activation::activate;
pub use burn_sparse_cpu::{Activation, Layout, PackedShape, Window, peak_gflops};
pub use choice::{Choice, Predicted, Reason};
pub use conv2d::sparse_conv2d;
pub use cost::Costs;
pub use dense::{
    BatchNormalized, Unseen, attention, batch_norm_relu, batch_norm_relu_train, dense_conv2d,
    dense_linear, gelu, lstm_sequence, rms_norm, rotary, swiglu,
};
pub use kernel_name::KernelName;
pub use linear::{sparse_linear, sparse_linear_features_major, sparse_linear_with};
pub use lstm_cell::lstm_cell;
pub use mask::{apply_mask, decay_dropped};
pub use memo::{Address, Memo};
pub use ops::SparseOps;
pub use packed::{Checked, PackedPrimitive, PackedTensors, Spec};
pub use quantized::{QuantizedWeight, quantized_linear, quantizes};
pub use select::{select, select_conv2d, trains_faster, trains_faster_conv2d};
