//! Gradient of the kept values, `dw = dyᵀ · x` at the kept entries.

use super::{dots, look_up};
use crate::Layout;
use crate::cpu::simd::Isa;
use crate::cpu::{Value, Weight};

/// Returns the gradient of every stored value, `Σ_token dy[row] · x[column]`; zero for padding.
pub(crate) fn dw<V: Value>(isa: Isa, weight: &Weight<'_, V>, x: &[f32], dy: &[f32]) -> Vec<f32> {
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
