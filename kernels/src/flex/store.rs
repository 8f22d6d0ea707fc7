use super::simd::Simd;
use super::smooth::gelu;
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
