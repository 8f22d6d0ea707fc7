use crate::parallel::{Shared, for_each_range, team};
use crate::simd::{Isa, Simd, Work, dispatch};
use crate::size::{elements, reaches};

use super::heads::Heads;

/// Rotates feature `i` of every head together with feature `i + d_head / 2` by the angles of its position.
/// Returns `[batch, heads, positions, d_head]`.
///
/// # Panics
/// Panics if `cos` and `sin` do not have `positions · d_head / 2` values each, or a vector is outside of its slice.
pub fn turned(isa: Isa, x: Heads<'_>, cos: &[f32], sin: &[f32]) -> Vec<f32> {
    let [batch, heads, positions, width] = x.shape;
    let half = width / 2;
    let tables = elements(&[positions, half]);
    assert!(width == 2 * half && [cos.len(), sin.len()] == [tables; 2]);
    let len = elements(&x.shape);
    if len == 0 {
        return Vec::new();
    }
    assert!(reaches(x.values.len(), &x.shape[..3], &x.strides, width));
    let mut out = Vec::with_capacity(len);
    let to = Shared::spare(&mut out);
    let rows = batch * heads * positions;
    for_each_range(rows, team(4 * len, 2 * size_of::<f32>() * len), |range| {
        for row in range {
            let (head, position) = (row / positions % heads, row % positions);
            let batch = row / positions / heads;
            let from = batch * x.strides[0] + head * x.strides[1] + position * x.strides[2];
            // SAFETY: vectors, angles and output have these lengths, as asserted; the output's vector belongs to this part
            // alone.
            unsafe {
                let x = x.values.as_ptr().add(from);
                let [cos, sin] = [cos, sin].map(|table| table.as_ptr().add(position * half));
                dispatch(isa, Head { x, cos, sin, to: to.get().add(row * width), half });
            }
        }
    });
    // SAFETY: every vector was fully written.
    unsafe { out.set_len(len) };
    out
}

struct Head {
    x: *const f32,
    cos: *const f32,
    sin: *const f32,
    to: *mut f32,
    half: usize,
}

impl Work for Head {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { x, cos, sin, to, half } = self;
        for at in (0..half).step_by(S::LANES) {
            let count = S::LANES.min(half - at);
            // SAFETY: the creator of `self` guarantees two halves at `x` and `to`, and one at each table.
            unsafe {
                let a = S::load_first(x.add(at), count);
                let b = S::load_first(x.add(half + at), count);
                let cos = S::load_first(cos.add(at), count);
                let sin = S::load_first(sin.add(at), count);
                let minus = S::fma(b, S::splat(-1.0), S::zero());
                let first = S::fma(a, cos, S::fma(minus, sin, S::zero()));
                let second = S::fma(b, cos, S::fma(a, sin, S::zero()));
                S::store_first(to.add(at), first, count);
                S::store_first(to.add(half + at), second, count);
            }
        }
    }
}
