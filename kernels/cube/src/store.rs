use cubecl::prelude::*;

/// What is applied to a sum while it is still in registers, and where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Store {
    /// Adds `bias [rows]`.
    pub bias: bool,
    /// Applies `max(0, y)`.
    pub relu: bool,
}

/// `activation(sum + bias[row])`.
#[cube]
pub(crate) fn finish<F: Float>(sum: f32, bias: &[F], row: usize, #[comptime] store: Store) -> F {
    let mut y = sum;
    if comptime!(store.bias) {
        y += f32::cast_from(bias[row]);
    }
    if comptime!(store.relu) {
        // Not `max`, which answers 0 for NaN on some devices: Burn's own `relu` passes NaN on.
        y = select(y < 0.0, 0.0, y);
    }
    F::cast_from(y)
}

/// The row at `place`, where rows have an order of their own.
#[cube]
pub(crate) fn row_of(order: &[u32], place: usize, #[comptime] ordered: bool) -> usize {
    let mut row = place;
    if comptime!(ordered) {
        row = order[place] as usize;
    }
    row
}
