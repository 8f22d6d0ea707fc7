//! Operators of Llama's blocks in inference.

use burn::backend::Flex;
use burn::tensor::Tensor;
use burn_sparse_cpu::Isa;
use burn_sparse_cpu::dense::{Function, Rows, apply, rms_norm as normalized, turned};

use super::attention::{heads_of, view};
use crate::ops::{on_cpu, tensor};

/// Computes `x / √(mean x² + epsilon) · gamma` of every position (Zhang and Sennrich, 2019) in one pass on the CPU. Returns
/// `None` on other devices, with autodiff, and for types other than f32.
///
/// # Shapes
/// - `x` and the output: `[..., features]`
/// - `gamma`: `[features]`
///
/// # Panics
/// Panics if shapes do not fit.
pub fn rms_norm<const D: usize>(
    x: &Tensor<D>,
    gamma: &Tensor<1>,
    epsilon: f64,
) -> Option<Tensor<D>> {
    let shape = x.dims();
    assert_eq!(gamma.dims(), [shape[D - 1]], "rms_norm: gamma");
    let (x, gamma) = (on_cpu(x)?, on_cpu(gamma)?);
    let y = normalized(Isa::detect(), x.as_slice()?, gamma.as_slice()?, epsilon as f32);
    Some(Tensor::from_primitive::<Flex>(tensor(y, shape)))
}

/// Computes `silu(gate) ⊙ value` (Shazeer, 2020) in one pass on the CPU, where gate and value are the two halves of the last
/// axis. Returns `None` on other devices, with autodiff, and for types other than f32.
///
/// # Shapes
/// - `both`: `[..., 2 · features]`
/// - output: `[..., features]`
///
/// # Panics
/// Panics if the last axis is odd.
pub fn swiglu<const D: usize>(both: &Tensor<D>) -> Option<Tensor<D>> {
    let mut shape = both.dims();
    assert!(shape[D - 1].is_multiple_of(2), "swiglu: {shape:?}");
    shape[D - 1] /= 2;
    let width = shape[D - 1];
    let both = on_cpu(both)?;
    let a = both.as_slice()?;
    let count = a.len().checked_div(2 * width)?;
    let rows = Rows { count, width, a, b: &a[width.min(a.len())..], strides: [2 * width; 2] };
    let y = apply(Isa::detect(), Function::Swiglu, rows);
    Some(Tensor::from_primitive::<Flex>(tensor(y, shape)))
}

/// Rotates feature `i` of every head together with feature `i + d_head / 2` by the angle of its position (Su et al.,
/// "RoFormer", 2021; the half-split form of Hugging Face's Llama) in one pass on the CPU. The heads may be views of a larger
/// product. Returns `None` on other devices, with autodiff, and for types other than f32.
///
/// # Shapes
/// - `x` and the output: `[batch, heads, positions, d_head]`
/// - `cos`, `sin`: `[positions, d_head / 2]`
///
/// # Panics
/// Panics if shapes do not fit.
pub fn rotary(x: &Tensor<4>, cos: &Tensor<2>, sin: &Tensor<2>) -> Option<Tensor<4>> {
    let shape @ [_, _, positions, d_head] = x.dims();
    let expected = [positions, d_head / 2];
    assert!(d_head.is_multiple_of(2), "rotary: {d_head} features of a head");
    assert_eq!([cos.dims(), sin.dims()], [expected; 2], "rotary: angles");
    let (x, cos, sin) = (view(x)?, on_cpu(cos)?, on_cpu(sin)?);
    let y = turned(Isa::detect(), heads_of(&x)?, cos.as_slice()?, sin.as_slice()?);
    Some(Tensor::from_primitive::<Flex>(tensor(y, shape)))
}
