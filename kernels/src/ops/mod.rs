//! The backend extension [`SparseOps`] and its implementations.

#[cfg(feature = "cubecl-backend")]
mod activations;
#[cfg(feature = "cubecl-backend")]
mod cube;
mod autodiff;
mod flex;
mod traits;

pub(crate) use flex::{convolve, on_cpu, tensor};
pub use traits::SparseOps;
