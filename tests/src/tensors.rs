//! Inputs and comparisons shared by layer tests.

use burn::tensor::{Device, Tensor, TensorData};

/// Returns a tensor of deterministic values from -1 to 1 that repeat after about a thousand elements.
pub fn input<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let count = shape.iter().product();
    let values: Vec<f32> =
        (0..count).map(|i| ((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Asserts that the shapes are equal and every element differs by less than 1e-5.
///
/// # Panics
/// Panics if they differ.
pub fn close<const D: usize>(found: Tensor<D>, expected: Tensor<D>, what: &str) {
    assert_eq!(found.dims(), expected.dims(), "{what}");
    let [found, expected] =
        [found, expected].map(|tensor| tensor.into_data().try_into_vec::<f32>().expect("floats"));
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-5, "{what}: {found} instead of {expected}");
    }
}
