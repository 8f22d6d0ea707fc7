//! The backend extension [`SparseOps`] and its implementations.

#[cfg(feature = "cubecl-backend")]
mod activations;
mod autodiff;
#[cfg(feature = "cubecl-backend")]
mod cube;
mod flex;
mod traits;

pub(crate) use flex::{
    convolution_gradients, convolve, floats, into_on_cpu, multiply, on_cpu, tensor, whole,
};
pub use traits::SparseOps;
