//! Cost model: predicts the time of a multiplication by a small model of every kernel and of the dense side (Burn's
//! product and our convolution), whose coefficients are measured per machine.
//!
//! A call on `n` tokens, or output pixels, takes `call + kept · k + cells · c + edges · e`, with the number of kept
//! weights, the number of cells, for work done once per block (or once per weight of a dense matrix), and the number of
//! edges (rows plus columns), for data that is transposed or copied. The four coefficients are measured for some values
//! of `n` ([`Costs::measure`]), and the time between them is interpolated linearly ([`curves`]). A weight that is larger
//! than the caches adds a time for each of its remaining bytes, which come from memory.

mod costs;
pub(crate) mod curves;

pub use costs::Costs;
pub(crate) use costs::Tables;
pub(crate) use curves::Chosen;
