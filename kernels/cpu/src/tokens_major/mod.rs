//! Kernels for token-major activations: neither inputs nor outputs are transposed, and a weight is read once for every
//! few tokens.

pub(crate) mod decode;
pub(crate) mod gather;
pub(crate) mod look_up;
pub(crate) mod table;

/// Copies the `cols` inputs of every token to `padded` floats, with zeros past the last.
fn pad(x: &[f32], cols: usize, copies: &mut [f32], padded: usize) {
    for (copy, x) in copies.chunks_exact_mut(padded).zip(x.chunks_exact(cols)) {
        copy[..cols].copy_from_slice(x);
        copy[cols..].fill(0.0);
    }
}
