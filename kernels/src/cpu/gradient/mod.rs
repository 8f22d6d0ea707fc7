//! Gradients through a packed weight.
//!
//! The gradient of the input is a product with the transposed weight, on the register tiles of the forward pass: every
//! kept weight adds to its column's row of a tile of tokens ([`input`]). The gradient of the kept values sums over tokens,
//! by dot products along them ([`dots`]), or, if rows are balanced, by a table from which 16 rows at a time look up their
//! inputs ([`look_up`]).

mod dots;
mod input;
mod look_up;
mod values;

pub(crate) use input::dx;
pub(crate) use values::dw;
