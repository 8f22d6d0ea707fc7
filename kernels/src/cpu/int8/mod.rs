//! Kernels of weights and inputs in 8 bits: exact integer sums, scaled when they are stored.
//!
//! Rows are divided into strips of 16. An instruction multiplies a quad of weights of every row of a strip with four inputs
//! each. Rows that keep the same columns read them from a gathered copy of the input ([`shared`]), others look their own
//! inputs up in a table of 64 ([`look_up`]).

mod build;
mod dots;
mod inputs;
mod look_up;
mod run;
mod shared;
mod store;
mod unpack;
mod weight;

pub(crate) use dots::ByteIsa;
pub(crate) use run::run;
pub(crate) use weight::{ByteWeight, MOST_COLUMNS};

#[cfg(test)]
mod tests;
