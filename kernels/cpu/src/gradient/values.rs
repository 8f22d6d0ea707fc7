//! Gradient of the kept values, `dw = dyᵀ · x` at the kept entries.

use super::{dots, look_up};
use crate::Layout;
use crate::simd::Isa;
use crate::weight::typed;
use crate::{PackedWeight, Value, Weight};

/// Returns the gradient of every stored value, `Σ_token dy[row] · x[column]`; zero for padding if inputs are finite.
///
/// # Panics
/// Panics if slices do not have the lengths of `x [n, cols]` and `dy [n, rows]`.
pub fn dw(isa: Isa, weight: &PackedWeight<'_>, x: &[f32], dy: &[f32]) -> Vec<f32> {
    typed!(weight, weight => by_layout(isa, weight, x, dy))
}

fn by_layout<V: Value>(isa: Isa, weight: &Weight<'_, V>, x: &[f32], dy: &[f32]) -> Vec<f32> {
    let n = dy.len() / weight.rows;
    assert_eq!([dy.len(), x.len()], [n * weight.rows, n * weight.cols]);
    let mut dw = vec![0.0; weight.values.len()];
    if x.is_empty() {
        return dw;
    }
    match weight.layout {
        Layout::Balanced { block, kept } if look_up::fits(block, isa) => {
            look_up::add(isa, weight, (block, kept), x, dy, &mut dw);
        }
        _ => dots::add(isa, weight, x, dy, &mut dw),
    }
    dw
}
