use super::simd::Simd;
use crate::Activation;

/// What is added to and applied to a sum on its way out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Store<'a> {
    pub(crate) bias: Option<&'a [f32]>,
    pub(crate) activation: Activation,
}

impl Store<'_> {
    /// What a row's sum starts from.
    #[inline(always)]
    pub(crate) fn bias(&self, row: usize) -> f32 {
        self.bias.map_or(0.0, |bias| bias[row])
    }

    /// The activation, once the sum is complete, if one instruction does it; [`Self::finish`] has the rest.
    ///
    /// # Safety
    /// As for [`Simd`].
    #[inline(always)]
    pub(crate) unsafe fn activate<S: Simd>(&self, sum: S::F, complete: bool) -> S::F {
        match self.activation {
            // SAFETY: passed on.
            Activation::Relu if complete => unsafe { S::max(S::zero(), sum) },
            _ => sum,
        }
    }

    /// The rest of the activation, on `len` floats just stored, a multiple of the lanes. Not on sums in
    /// registers: so much code for each would push them all out to memory.
    ///
    /// # Safety
    /// As for [`Simd`]; `at` holds `len` floats.
    #[inline(always)]
    pub(crate) unsafe fn finish<S: Simd>(&self, at: *mut f32, len: usize) {
        if self.activation == Activation::Gelu {
            for i in (0..len).step_by(S::LANES) {
                // SAFETY: passed on.
                unsafe { S::store(at.add(i), gelu::<S>(S::load(at.add(i)))) };
            }
        }
    }
}

/// The error function is `x P(x²) / Q(x²)` on `[-4, 4]` and one of ±1 outside, to 5e-7: a least-squares fit
/// of our own. Lowest power first.
const P: [f32; 7] = [
    1.128_378_6,
    2.139_391e-1,
    5.243_272_3e-2,
    4.292_799e-3,
    1.555_295_3e-4,
    -1.990_272_3e-6,
    1.921_699e-8,
];
const Q: [f32; 5] = [1.0, 5.229_263e-1, 1.207_973e-1, 1.555_060_1e-2, 1.097_972_3e-3];

/// `x Φ(x)`, Φ the normal distribution (Hendrycks and Gimpel, 2016): the exact form, as `burn`'s.
///
/// # Safety
/// As for [`Simd`].
#[inline(always)]
pub(crate) unsafe fn gelu<S: Simd>(x: S::F) -> S::F {
    // SAFETY: passed on.
    unsafe {
        let scaled = S::fma(x, S::splat(std::f32::consts::FRAC_1_SQRT_2), S::zero());
        let t = S::max(S::splat(-4.0), S::min(S::splat(4.0), scaled));
        let square = S::fma(t, t, S::zero());
        let (p, q) = (horner::<S, 7>(&P, square), horner::<S, 5>(&Q, square));
        let erf = S::div(S::fma(t, p, S::zero()), q);
        let half = S::fma(x, S::splat(0.5), S::zero());
        S::fma(half, erf, half)
    }
}

/// `Σ coefficients[i] xⁱ`.
#[inline(always)]
unsafe fn horner<S: Simd, const N: usize>(coefficients: &[f32; N], x: S::F) -> S::F {
    // SAFETY: passed on.
    unsafe {
        let mut sum = S::splat(coefficients[N - 1]);
        for &coefficient in coefficients[..N - 1].iter().rev() {
            sum = S::fma(sum, x, S::splat(coefficient));
        }
        sum
    }
}
