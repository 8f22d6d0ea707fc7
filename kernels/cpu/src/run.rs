use super::parallel::Shared;
use super::simd::Isa;
use super::size::elements;
use super::tiles::{self, Lines};
use super::tokens_major::{decode, gather, look_up};
use super::weight::typed;
use super::{CpuKernel, PackedWeight, Store, Value, Weight};

/// Computes `y [n, rows] = activation(x [n, cols] · Wᵀ + bias)`.
///
/// # Panics
/// Panics if slices do not have these lengths, or the kernel does not support the weight or this many tokens.
pub fn run(
    isa: Isa,
    kernel: CpuKernel,
    weight: &PackedWeight<'_>,
    x: &[f32],
    store: Store<'_>,
) -> Vec<f32> {
    typed!(weight, weight => product(isa, kernel, weight, x, store))
}

fn product<V: Value>(
    isa: Isa,
    kernel: CpuKernel,
    weight: &Weight<'_, V>,
    x: &[f32],
    store: Store<'_>,
) -> Vec<f32> {
    let n = x.len() / weight.cols;
    assert_eq!(x.len(), n * weight.cols);
    assert!(store.bias.is_none_or(|bias| bias.len() == weight.rows));
    let outputs = elements(&[n, weight.rows]);
    let mut y = Vec::with_capacity(outputs);
    if n > 0 {
        assert!(CpuKernel::candidates(weight.layout, n, isa).any(|candidate| candidate == kernel));
        let out = Shared::spare(&mut y);
        match kernel {
            CpuKernel::Decode => decode::run(isa, weight, x, store, out),
            CpuKernel::LookUp => look_up::run(isa, weight, x, store, out),
            CpuKernel::Gather => gather::run(isa, weight, x, store, out),
            CpuKernel::Tiles | CpuKernel::Rows => {
                let (cols, rows) = (weight.cols, weight.rows);
                tiles::run(isa, weight, &Lines { x, cols, y: out, rows }, store);
            }
        }
    }
    // SAFETY: every kernel writes every row of every token; zeroing first would touch all of it twice.
    unsafe { y.set_len(outputs) };
    y
}
