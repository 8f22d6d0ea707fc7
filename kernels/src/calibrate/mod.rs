//! Measurements that choices among kernels are based on.

mod cache;
mod cells;
mod fit;
#[cfg(feature = "cubecl-backend")]
mod gpu;
mod measure;

#[cfg(feature = "cubecl-backend")]
pub(crate) use gpu::{Measured, measured};
