//! Products of tokens with packed weights.

mod inference;
mod operator;

pub(crate) use operator::{Dispatch, run};
pub use operator::{sparse_linear, sparse_linear_features_major, sparse_linear_with};
