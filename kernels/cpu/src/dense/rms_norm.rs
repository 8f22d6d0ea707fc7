use crate::parallel::{Shared, for_each_range, team};
use crate::simd::{Isa, Simd, Work, dispatch};

/// Divides every row of `x [rows, width]` by its root mean square, `√(mean x² + epsilon)`, and multiplies it by `gamma`.
///
/// # Panics
/// Panics if the slices do not have these lengths.
pub fn rms_norm(isa: Isa, x: &[f32], gamma: &[f32], epsilon: f32) -> Vec<f32> {
    let width = gamma.len();
    let rows = x.len().checked_div(width).unwrap_or(0);
    assert_eq!(x.len(), rows * width);
    let mut out = Vec::with_capacity(x.len());
    let to = Shared::spare(&mut out);
    for_each_range(rows, team(2 * x.len(), 2 * size_of::<f32>() * x.len()), |range| {
        for row in range {
            // SAFETY: the slices hold all rows, and the output's row belongs to this part alone.
            unsafe {
                let (x, to) = (x.as_ptr().add(row * width), to.get().add(row * width));
                dispatch(isa, Row { x, gamma, epsilon, to });
            }
        }
    });
    // SAFETY: every row was fully written.
    unsafe { out.set_len(x.len()) };
    out
}

struct Row<'a> {
    x: *const f32,
    gamma: &'a [f32],
    epsilon: f32,
    to: *mut f32,
}

impl Work for Row<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let width = self.gamma.len();
        // SAFETY: the creator of `self` guarantees a row at every pointer.
        unsafe {
            let mut squares = S::zero();
            for at in (0..width).step_by(S::LANES) {
                let x = S::load_first(self.x.add(at), S::LANES.min(width - at));
                squares = S::fma(x, x, squares);
            }
            let mut lanes = [0.0_f32; 16];
            S::store(lanes.as_mut_ptr(), squares);
            let mean = lanes[..S::LANES].iter().sum::<f32>() / width as f32;
            let by = S::splat(1.0 / (mean + self.epsilon).sqrt());
            for at in (0..width).step_by(S::LANES) {
                let count = S::LANES.min(width - at);
                let x = S::fma(S::load_first(self.x.add(at), count), by, S::zero());
                let gamma = S::load_first(self.gamma.as_ptr().add(at), count);
                S::store_first(self.to.add(at), S::fma(x, gamma, S::zero()), count);
            }
        }
    }
}
