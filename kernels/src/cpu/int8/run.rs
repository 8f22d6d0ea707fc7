use super::dots::{ByteIsa, dispatch};
use super::inputs::{Inputs, quantize, stride};
use super::weight::{ByteWeight, Form};
use super::{look_up, shared};
use crate::cpu::Store;
use crate::cpu::parallel::{Shared, for_each_range, team, with_scratch};

/// Multiply-adds of bytes that take the time of one of floats.
const PER_FLOAT: usize = 4;

/// Computes `y [n, rows] = activation(x [n, cols] · Wᵀ + bias)`, with inputs rounded to bytes, each token by its own scale.
///
/// # Panics
/// Panics if slices do not have these lengths, which callers check.
pub(crate) fn run(isa: ByteIsa, weight: &ByteWeight, x: &[f32], store: Store<'_>) -> Vec<f32> {
    let (n, stride) = (x.len() / weight.cols, stride(weight.cols));
    assert_eq!(x.len(), n * weight.cols);
    assert!(store.bias.is_none_or(|bias| bias.len() == weight.rows));
    let mut y = Vec::with_capacity(n * weight.rows);
    let out = Shared::spare(&mut y);
    // Bytes in memory that is aligned and kept between calls, as floats are.
    with_scratch(n * stride / 4 + n, |scratch| {
        let (bytes, scales) = scratch.split_at_mut(n * stride / 4);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(bytes);
        quantize(isa, x, weight.cols, bytes, scales);
        let inputs = Inputs { bytes, stride, scales };
        let team = team(weight.work() * n / PER_FLOAT, weight.bytes());
        for_each_range(weight.units(), team, |units| match &weight.form {
            Form::Shared(shared) => with_scratch(shared::scratch(shared).div_ceil(4), |gathered| {
                let gathered = bytemuck::cast_slice_mut(gathered);
                let y = out;
                let work = shared::Multiply { weight, shared, units, inputs, store, y, gathered };
                dispatch(isa, work);
            }),
            Form::LookUp(look_up) => {
                let (strips, y) = (units, out);
                dispatch(isa, look_up::Multiply { weight, look_up, strips, inputs, store, y });
            }
        });
    });
    // SAFETY: every lane's row is written for every token, and every row has a lane.
    unsafe { y.set_len(n * weight.rows) };
    y
}
