//! Sparse linear kernels for Burn.
//!
//! [`SparseOps`] is a Burn backend extension: one operator `y = x · Wᵀ + b` on a packed `W`, its
//! gradients, and the masking of a dense weight. [`Layout`] says how `W` is packed, [`select()`] which
//! kernel runs and why, so that nobody has to guess whether a sparse kernel ran.
//!
//! | layout | patterns | kernel on Flex |
//! |---|---|---|
//! | grouped | shfl-bw, vector-wise, block-wise | dense register tiles over gathered columns |
//! | balanced | balanced, n-of-m | batch-vectorised with fixed counts; in-register look-up for one token |
//! | rows | unstructured | batch-vectorised rows |

mod autodiff;
mod flex;
mod functions;
mod layout;
mod ops;
mod packed_tensors;
mod select;

pub use functions::{masked, sparse_linear};
pub use layout::{Activation, Layout, Spec};
pub use ops::SparseOps;
pub use packed_tensors::PackedTensors;
pub use select::{Choice, KernelName, select};
