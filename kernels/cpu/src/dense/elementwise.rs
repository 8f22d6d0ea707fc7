use crate::parallel::{Shared, for_each_range, team};
use crate::polynomials::{gelu, gelu_derivative, sigmoid};
use crate::simd::{Isa, Simd, Work, dispatch};
use crate::size::{elements, reaches};

/// Function of one value, or of two, applied to every element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// `gelu(a)`.
    Gelu,
    /// `gelu'(a) · b`.
    GeluGradient,
    /// `a · σ(a) · b`, the SwiGLU of a gate and a value.
    Swiglu,
}

/// Cost of a function, in multiply-adds.
const WORK: usize = 30;

/// Rows of inputs: `count` rows of `width` values, `strides[0]` (`strides[1]` for `b`) values apart.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// Number of rows.
    pub count: usize,
    /// Values of a row.
    pub width: usize,
    /// First input.
    pub a: &'a [f32],
    /// Second input; ignored by functions of one value.
    pub b: &'a [f32],
    /// Distances from one row of the inputs to the next.
    pub strides: [usize; 2],
}

/// Applies a function to every element; the output has no gaps between rows.
///
/// # Panics
/// Panics if a slice is too short.
pub fn apply(isa: Isa, function: Function, rows: Rows<'_>) -> Vec<f32> {
    let Rows { count, width, a, b, strides } = rows;
    let len = elements(&[count, width]);
    for (values, stride) in [(a, strides[0]), (b, strides[1])] {
        assert!(len == 0 || reaches(values.len(), &[count], &[stride], width));
    }
    let mut out = Vec::with_capacity(len);
    let to = Shared::spare(&mut out);
    for_each_range(count, team(len * WORK, 3 * size_of::<f32>() * len), |range| {
        for row in range {
            // SAFETY: the slices hold all rows, as asserted, and the output's row belongs to this part alone.
            unsafe {
                let a = a.as_ptr().add(row * strides[0]);
                let b = b.as_ptr().add(row * strides[1]);
                let to = to.get().add(row * width);
                dispatch(isa, Row { function, a, b, to, width });
            }
        }
    });
    // SAFETY: every row was fully written.
    unsafe { out.set_len(len) };
    out
}

struct Row {
    function: Function,
    a: *const f32,
    b: *const f32,
    to: *mut f32,
    width: usize,
}

impl Work for Row {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        for at in (0..self.width).step_by(S::LANES) {
            let count = S::LANES.min(self.width - at);
            // SAFETY: the creator of `self` guarantees a row at every pointer.
            unsafe {
                let a = S::load_first(self.a.add(at), count);
                let value = match self.function {
                    Function::Gelu => gelu::<S>(a),
                    Function::GeluGradient => {
                        let b = S::load_first(self.b.add(at), count);
                        S::fma(gelu_derivative::<S>(a), b, S::zero())
                    }
                    Function::Swiglu => {
                        let b = S::load_first(self.b.add(at), count);
                        let gate = S::fma(a, sigmoid::<S>(a), S::zero());
                        S::fma(gate, b, S::zero())
                    }
                };
                S::store_first(self.to.add(at), value, count);
            }
        }
    }
}
