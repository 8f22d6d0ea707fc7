use burn::tensor::Tensor;

/// Reads all values of a tensor, flat; empty if the device fails.
pub(crate) fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().convert::<f32>().try_into_vec().unwrap_or_default()
}

/// Reads a tensor of one value; NaN if the device fails.
pub(crate) fn scalar(value: &Tensor<1>) -> f64 {
    let value = value.clone().into_data().convert::<f64>().try_into_vec();
    value.ok().and_then(|value: Vec<f64>| value.first().copied()).unwrap_or(f64::NAN)
}
