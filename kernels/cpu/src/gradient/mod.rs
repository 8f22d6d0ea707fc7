//! Gradients through a packed weight.
//!
//! The gradient of the input is a product with the transposed weight: for groups, on register tiles like those of the forward
//! pass (`input`); for rows that share no columns, by the columns of small panels (`panels`). The gradient of the kept values
//! is a sum over tokens, computed by dot products along them (`dots`) or, for balanced rows, with a table in which 16 rows at
//! a time look up their inputs (`look_up`).
//! Convolutions (`conv2d`) take the same products with output pixels as tokens.

mod conv2d;
mod dots;
mod input;
mod look_up;
mod panels;
mod values;

pub use conv2d::{Conv2dGradients, conv2d};
pub use input::dx;
pub use values::dw;
