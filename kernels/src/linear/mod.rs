//! Products of tokens with packed weights.

mod dispatch;
mod operator;

pub(crate) use dispatch::Dispatch;
pub(crate) use operator::run;
pub use operator::{sparse_linear, sparse_linear_features_major, sparse_linear_with};
