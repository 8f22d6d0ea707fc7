//! Convolutions with packed weights: on images themselves (`images`), or on tokens that windows are unfolded to (`unfold`).

mod images;
mod operator;
mod unfold;

pub use operator::sparse_conv2d;
