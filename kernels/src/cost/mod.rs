//! Cost model: predicts the time of a multiplication by a small model of every kernel and of the dense side (Burn's
//! product and our convolution), whose coefficients are measured per machine.
//!
//! A call on `n` tokens, or output pixels, takes `call + kept · k + cells · c + edges · e`, with the number of kept
//! weights, the number of cells, for work done once per block (or for the weights by which a dense matrix exceeds 2.25 MiB), and the
//! number of edges (rows plus columns), for data that is transposed or copied. The four coefficients are measured for some values
//! of `n` ([`Costs::measure`]), and the time between them is interpolated linearly ([`curves`]). Each byte by which
//! a weight exceeds the caches takes a time of its own, which tiles of several tokens hide in part behind their products.

mod costs;
pub(crate) mod curves;

pub use costs::Costs;
pub(crate) use costs::Tables;
pub(crate) use curves::Chosen;
