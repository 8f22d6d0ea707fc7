use burn::tensor::Tensor;

/// Reads a tensor of one value; NaN if the device fails.
pub(crate) fn scalar(value: &Tensor<1>) -> f64 {
    let value = value.clone().into_data().convert::<f64>().try_into_vec();
    value.ok().and_then(|value: Vec<f64>| value.first().copied()).unwrap_or(f64::NAN)
}
