use burn::tensor::Tensor;
use burn_sparse_pattern::format::ValueType;

use super::bench_row::BenchError;

/// Largest accepted error: that of 16-bit values, or of Burn's dense f32 products at reduced precision.
const MOST_OFF: f64 = 3e-2;

/// The same for 8 bits, which round both factors.
const MOST_OFF_INT8: f64 = 6e-2;

/// The same for weights in 4 bits.
const MOST_OFF_INT4: f64 = 0.3;

/// Returns the largest accepted difference of a layer whose values have this type, relative to its largest output.
pub(super) fn accepted(values: ValueType) -> f64 {
    match values {
        ValueType::Float(_) => MOST_OFF,
        ValueType::Int8 => MOST_OFF_INT8,
        ValueType::Int4 => MOST_OFF_INT4,
    }
}

/// Returns the largest difference relative to the largest value.
pub(super) fn off(found: Tensor<2>, expected: Tensor<2>) -> Result<f64, BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Device(error.to_string());
    let read = |tensor: Tensor<2>| -> Result<Vec<f32>, BenchError> {
        let data = tensor.try_into_data().map_err(|error| failed(&error))?;
        data.convert::<f32>().try_into_vec().map_err(|error| failed(&format!("{error:?}")))
    };
    let (found, expected) = (read(found)?, read(expected)?);
    let differences = found.iter().zip(&expected).map(|(found, expected)| found - expected);
    let most = largest(expected.iter().copied()).max(f64::MIN_POSITIVE);
    Ok(largest(differences) / most)
}

/// Returns the largest magnitude; unlike `f32::max` it propagates NaN.
fn largest(values: impl Iterator<Item = f32>) -> f64 {
    let sizes = values.map(|value| f64::from(value.abs()));
    sizes.fold(0.0, |most: f64, size| if most.is_nan() || size <= most { most } else { size })
}
