//! Convolutions with packed weights: directly on images (`images`), or on tokens, to which windows are unfolded (`unfold`).

mod images;
mod operator;
mod unfold;

pub use operator::sparse_conv2d;
