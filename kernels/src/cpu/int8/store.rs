use super::dots::{Dots, QUAD};
use super::weight::{ByteWeight, NO_ROW};
use crate::Activation;
use crate::cpu::Store;
use crate::cpu::simd::Simd;
use crate::layout::TILE_ROWS;

const _: () = assert!(QUAD == 4);

/// Outputs of a strip: where they go, and what is done to their sums on the way.
pub(super) struct Outputs<'a> {
    lanes: &'a [u32; TILE_ROWS],
    scales: &'a [f32; TILE_ROWS],
    bias: [f32; TILE_ROWS],
    store: Store<'a>,
    /// First row, if lanes hold consecutive rows.
    straight: Option<usize>,
    rows: usize,
}

impl<'a> Outputs<'a> {
    #[inline(always)]
    pub(super) fn of(weight: &'a ByteWeight, strip: usize, store: Store<'a>) -> Self {
        let lanes = &weight.lanes[strip];
        let mut bias = [0.0; TILE_ROWS];
        if store.bias.is_some() {
            for (bias, &row) in bias.iter_mut().zip(lanes) {
                if row != NO_ROW {
                    *bias = store.bias(row as usize);
                }
            }
        }
        let mut straight = true;
        for (lane, &row) in lanes.iter().enumerate() {
            straight &= row == lanes[0].wrapping_add(lane as u32);
        }
        let straight = straight.then_some(lanes[0] as usize);
        Self { lanes, scales: &weight.scales[strip], bias, store, straight, rows: weight.rows }
    }

    /// Stores the sums of a token whose inputs have this scale to its row of `y [n, rows]`.
    ///
    /// # Safety
    /// Same as for [`Dots`]; `y` must have the rows of these lanes, which no other thread writes.
    #[inline(always)]
    pub(super) unsafe fn put<D: Dots>(&self, sums: D::Sums, scale: f32, token: usize, y: *mut f32) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (mut whole, mut out) = ([0_i32; TILE_ROWS], [0.0_f32; TILE_ROWS]);
            D::store(whole.as_mut_ptr(), sums);
            for lane in 0..TILE_ROWS {
                out[lane] = whole[lane] as f32 * (self.scales[lane] * scale) + self.bias[lane];
            }
            if self.store.activation == Activation::Relu {
                for at in (0..TILE_ROWS).step_by(D::Floats::LANES) {
                    let sums = D::Floats::load(out.as_ptr().add(at));
                    D::Floats::store(out.as_mut_ptr().add(at), D::Floats::max(D::Floats::zero(), sums));
                }
            }
            self.store.finish::<D::Floats>(out.as_mut_ptr(), TILE_ROWS);
            let y = y.add(token * self.rows);
            if let Some(first) = self.straight {
                y.add(first).copy_from_nonoverlapping(out.as_ptr(), TILE_ROWS);
                return;
            }
            for (&row, &sum) in self.lanes.iter().zip(&out) {
                if row != NO_ROW {
                    *y.add(row as usize) = sum;
                }
            }
        }
    }
}
