//! Gradients through a packed weight.
//!
//! The gradient of the input is a product with the transposed weight: of groups, on register tiles like those of the forward
//! pass (`input`); of rows that share no columns, by columns of small panels (`panels`). The gradient of the kept values sums
//! over tokens, by dot products along them (`dots`), or, if rows are balanced, by a table from which 16 rows at a time look
//! up their inputs (`look_up`).
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
