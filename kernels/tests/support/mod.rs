#![allow(dead_code, reason = "not every test file uses all of it")]

use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_sparse_kernels::PackedTensors;
use burn_sparse_pattern::{Packed, Pattern, Scores, Search};

/// Returns the CPU and the GPU of every runtime that is built in.
pub fn devices() -> Vec<Device> {
    vec![
        Device::flex(),
        #[cfg(feature = "wgpu")]
        Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "cuda")]
        Device::cuda(0),
    ]
}

pub fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

pub fn tensor<const D: usize>(values: &[f32], shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), device)
}

pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}

pub struct Case {
    pub packed: PackedTensors,
    pub dense: Vec<f32>,
    pub rows: usize,
    pub cols: usize,
}

/// Returns a packed random weight, or `None` if the pattern cannot be projected at this shape and sparsity.
pub fn case(text: &str, rows: usize, cols: usize, sparsity: f64, device: &Device) -> Option<Case> {
    let pattern: Pattern = text.parse().unwrap();
    let weights = noise(rows * cols, 7);
    let scores: Vec<f32> = weights.iter().map(|w| w.abs()).collect();
    let scores = Scores::new(rows, cols, &scores).unwrap();
    let found = pattern.project(&scores, sparsity, &Search::default()).ok()?;
    let packed = Packed::pack(&pattern, &weights, &found.mask, found.row_order.as_ref()).unwrap();
    let dense = packed.unpack();
    Some(Case { packed: PackedTensors::from_packed(&packed, device), dense, rows, cols })
}

/// Returns the weight with other values.
pub fn map_values(
    packed: PackedTensors,
    map: impl FnOnce(Tensor<2>) -> Tensor<2>,
) -> PackedTensors {
    let shape = (packed.rows(), packed.cols());
    let (layout, values, indices, checked) = packed.into_parts();
    PackedTensors::from_parts(shape, layout, map(values), indices, checked)
}

/// Returns the weight with another index tensor, and the same record of checks.
pub fn map_index(
    packed: PackedTensors,
    map: impl FnOnce(Tensor<1, Int>) -> Tensor<1, Int>,
) -> PackedTensors {
    let shape = (packed.rows(), packed.cols());
    let (layout, values, [index, offsets, order], checked) = packed.into_parts();
    PackedTensors::from_parts(shape, layout, values, [map(index), offsets, order], checked)
}
