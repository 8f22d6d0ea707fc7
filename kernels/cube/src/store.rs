use std::f32::consts::FRAC_1_SQRT_2;

use cubecl::prelude::*;

/// Operations applied to a sum while it is still in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Store {
    /// Adds `bias [rows]`.
    pub bias: bool,
    /// Activation applied after the bias.
    pub activation: Activation,
}

/// Activation function applied to each output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// Identity.
    None,
    /// `max(0, y)`.
    Relu,
    /// `y Φ(y)`, where Φ is the cumulative normal distribution.
    Gelu,
}

/// Computes `activation(sum + bias[row])`.
#[cube]
pub(crate) fn finish<F: Float>(sum: f32, bias: &[F], row: usize, #[comptime] store: Store) -> F {
    F::cast_from(activated(sum + bias_of::<F>(bias, row, store), store))
}

/// Applies [`finish`] to adjacent tokens of a row, given its bias.
#[cube]
pub(crate) fn finish_all<F: Float, N: Size>(
    sums: Vector<f32, N>,
    bias: f32,
    #[comptime] store: Store,
) -> Vector<F, N> {
    let mut y = Vector::<f32, N>::empty();
    #[unroll]
    for i in 0..N::value() {
        y.insert(i, activated(sums.extract(i) + bias, store));
    }
    Vector::cast_from(y)
}

/// Returns the bias of a row in f32, or zero if there is none.
#[cube]
pub(crate) fn bias_of<F: Float>(bias: &[F], row: usize, #[comptime] store: Store) -> f32 {
    let mut of_row = 0.0f32;
    if comptime!(store.bias) {
        of_row = f32::cast_from(bias[row]);
    }
    of_row
}

#[cube]
fn activated(y: f32, #[comptime] store: Store) -> f32 {
    match comptime!(store.activation) {
        Activation::None => y,
        // Avoids `max`, which returns 0 for NaN on some devices: Burn's own `relu` propagates NaN.
        Activation::Relu => select(y < 0.0, 0.0, y),
        Activation::Gelu => y * (0.5 + 0.5 * Erf::erf(y * comptime!(FRAC_1_SQRT_2))),
    }
}

/// Returns the row at `place`, looked up in `order` if rows are permuted.
#[cube]
pub(crate) fn row_of(order: &[u32], place: usize, #[comptime] ordered: bool) -> usize {
    let mut row = place;
    if comptime!(ordered) {
        row = order[place] as usize;
    }
    row
}
