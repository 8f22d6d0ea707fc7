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

    /// The activation, once the sum is complete.
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

    /// The activation of one complete sum.
    #[inline(always)]
    pub(crate) fn activate_one(&self, sum: f32) -> f32 {
        match self.activation {
            Activation::None => sum,
            // Not `max`, which would turn NaN into zero.
            Activation::Relu if sum < 0.0 => 0.0,
            Activation::Relu => sum,
        }
    }
}
