//! Kernels of weights in 8 or 4 bits and inputs in 8 bits: exact integer sums, scaled when they are stored.
//!
//! Rows are divided into strips of 16. An instruction multiplies a quad of weights of every row of a strip by four inputs each:
//! by all inputs (`dense`, and `expanded`, which stores only kept weights), or by those of the kept columns (`kept`). Weights in
//! 4 bits are converted to bytes on the fly.

mod build;
mod dense;
mod dots;
mod expanded;
mod inputs;
mod kept;
mod quads;
mod run;
mod store;
mod unpack;
mod weight;

pub use dots::ByteIsa;
pub use run::run;
pub use weight::ByteWeight;
