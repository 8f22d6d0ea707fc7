use crate::polynomials::exp;
use crate::simd::{Simd, Work};

/// Softmax of a row of scores, in place.
pub(super) struct Softmax<'a> {
    pub(super) row: &'a mut [f32],
    /// `true` for scores that are replaced by `masked`; at least as long as the row.
    pub(super) padding: Option<&'a [bool]>,
    /// Factor by which every score is multiplied first.
    pub(super) scale: f32,
    pub(super) masked: f32,
}

impl Work for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { row, padding, scale, masked } = self;
        let len = row.len();
        // SAFETY: guaranteed by the caller.
        let mut most = unsafe { scaled::<S>(row, scale) };
        if let Some(padding) = padding {
            for (score, &hidden) in row.iter_mut().zip(padding) {
                *score = if hidden { masked } else { *score };
            }
            // The largest score may be masked now.
            // SAFETY: as above.
            most = unsafe { scaled::<S>(row, 1.0) };
        }
        // SAFETY: all vectors are within the row; the last may be partial.
        unsafe {
            let to = row.as_mut_ptr();
            let mut sums = S::zero();
            let whole = len / S::LANES * S::LANES;
            for at in (0..whole).step_by(S::LANES) {
                let value = exp::<S>(S::add(S::load(to.add(at)), S::splat(-most)));
                S::store(to.add(at), value);
                sums = S::add(sums, value);
            }
            let mut lanes = [0.0_f32; 16];
            if whole < len {
                let value =
                    exp::<S>(S::add(S::load_first(to.add(whole), len - whole), S::splat(-most)));
                S::store_first(to.add(whole), value, len - whole);
                S::store(lanes.as_mut_ptr(), value);
            }
            let mut sum: f32 = lanes[..len - whole].iter().sum();
            S::store(lanes.as_mut_ptr(), sums);
            sum += lanes[..S::LANES].iter().sum::<f32>();
            let by = S::splat(1.0 / sum);
            for at in (0..len).step_by(S::LANES) {
                let count = S::LANES.min(len - at);
                let value = S::fma(S::load_first(to.add(at), count), by, S::zero());
                S::store_first(to.add(at), value, count);
            }
        }
    }
}

/// Multiplies the scores of a row by `scale`, and returns the largest.
///
/// # Safety
/// Same as for [`Simd`].
#[inline(always)]
unsafe fn scaled<S: Simd>(row: &mut [f32], scale: f32) -> f32 {
    let whole = row.len() / S::LANES * S::LANES;
    let (vectors, rest) = row.split_at_mut(whole);
    let mut lanes = [f32::NEG_INFINITY; 16];
    // SAFETY: guaranteed by the caller; the vectors are within the row.
    unsafe {
        let mut most = S::splat(f32::NEG_INFINITY);
        for at in (0..whole).step_by(S::LANES) {
            let to = vectors.as_mut_ptr().add(at);
            let value = S::fma(S::load(to), S::splat(scale), S::zero());
            S::store(to, value);
            most = S::max(value, most);
        }
        S::store(lanes.as_mut_ptr(), most);
    }
    for score in rest {
        *score *= scale;
        lanes[0] = lanes[0].max(*score);
    }
    lanes.into_iter().fold(f32::NEG_INFINITY, f32::max)
}
