//! Times the kernels alone, without the host: launches are captured in a graph of the device, whose replays alternate
//! among the kernels.
//!
//! ```text
//! cargo bench -p burn-sparse-cube --features cuda --bench device -- \
//!     ROWSxCOLS,... PATTERN,... SPARSITY,... TOKENS,... [VECTORxTOKENSxDEPTHxSTAGESxACROSSxBAND,...]
//! ```
//!
//! PATTERN is `shfl-bw-VECTOR`, `balanced-BLOCK` or `hinm-VECTOR`; the last argument adds tiles of `wgmma` to those that dispatch
//! considers, unless they are wider than TOKENS. Prints one JSON object per line and kernel: `us` is the median time
//! of a product in microseconds, `range` the lowest and highest of its samples, `major` the layout of activations (a
//! kernel that computes feature-major transposes token-major ones on the way in and out), and `error` the greatest
//! difference from the case's first kernel, relative to the greatest output (`null` if not finite). Where launches
//! could not be captured, `graph` is false, and `us` includes the host. Values are bf16; enough weights take turns
//! that they outgrow every cache.

#[cfg(feature = "cuda")]
#[path = "../tests/support/mod.rs"]
mod support;

#[cfg(feature = "cuda")]
#[path = "device/measure.rs"]
mod measure;

fn main() {
    #[cfg(feature = "cuda")]
    measure::main();
    #[cfg(not(feature = "cuda"))]
    println!("needs feature `cuda`, and a device");
}
