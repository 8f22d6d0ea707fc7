use super::polynomials::gelu;
use super::simd::Simd;
use crate::Activation;

/// Bias and activation applied to a sum when it is stored.
#[derive(Debug, Clone, Copy)]
pub struct Store<'a> {
    /// Added to every sum, `[rows]`.
    pub bias: Option<&'a [f32]>,
    /// Applied after the bias.
    pub activation: Activation,
}

impl Store<'_> {
    /// Returns the initial value of a row's sum.
    #[inline(always)]
    pub(crate) fn bias(&self, row: usize) -> f32 {
        self.bias.map_or(0.0, |bias| bias[row])
    }

    /// Applies the activation to a complete sum if a single instruction computes it; [`Self::finish`] applies the
    /// others.
    ///
    /// # Safety
    /// Same as for [`Simd`].
    #[inline(always)]
    pub(crate) unsafe fn activate<S: Simd>(&self, sum: S::F, complete: bool) -> S::F {
        match self.activation {
            // SAFETY: guaranteed by the caller.
            Activation::Relu if complete => unsafe { S::max(S::zero(), sum) },
            _ => sum,
        }
    }

    /// Applies the rest of the activation to `len` floats just stored, a multiple of the lanes. Does not work on sums
    /// in registers, because that much code for each would spill all of them to memory.
    ///
    /// # Safety
    /// Same as for [`Simd`]; `at` must hold `len` floats.
    #[inline(always)]
    pub(crate) unsafe fn finish<S: Simd>(&self, at: *mut f32, len: usize) {
        if self.activation == Activation::Gelu {
            for i in (0..len).step_by(S::LANES) {
                // SAFETY: guaranteed by the caller.
                unsafe { S::store(at.add(i), gelu::<S>(S::load(at.add(i)))) };
            }
        }
    }
}
