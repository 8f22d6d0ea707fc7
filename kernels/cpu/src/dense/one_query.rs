use crate::simd::{Simd, Work};

use super::heads::Vectors;
use super::softmax::Softmax;

/// Attention of one query to the keys and values where they are, as a step of decoding has it.
pub(super) struct OneQuery<'a> {
    pub(super) query: &'a [f32],
    /// Keys and values of as many positions as there are scores, each as long as the query.
    pub(super) key: Vectors<'a>,
    pub(super) value: Vectors<'a>,
    /// Its row takes the scores.
    pub(super) softmax: Softmax<'a>,
    /// Takes the weighted mean of the values.
    pub(super) context: &'a mut [f32],
}

/// Vectors of the context whose sums are kept in registers together: fewer would wait for each other's additions.
const SUMS: usize = 4;

impl Work for OneQuery<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { query, key, value, softmax: Softmax { row, padding, scale, masked }, context } =
            self;
        let (keys, width) = (row.len(), query.len());
        for vectors in [key, value] {
            assert!(width > 0 && (keys - 1) * vectors.stride + width <= vectors.values.len());
        }
        assert!(context.len() == width);
        // SAFETY: the slices hold all vectors, as asserted; the instruction set is guaranteed by the caller.
        unsafe {
            for first in (0..keys).step_by(S::LANES) {
                let count = S::LANES.min(keys - first);
                let mut products = [S::zero(); 16];
                for (at, sum) in products.iter_mut().enumerate().take(count) {
                    let key = key.values.as_ptr().add((first + at) * key.stride);
                    for from in (0..width).step_by(S::LANES) {
                        let lanes = S::LANES.min(width - from);
                        let query = S::load_first(query.as_ptr().add(from), lanes);
                        *sum = S::fma(query, S::load_first(key.add(from), lanes), *sum);
                    }
                }
                S::store_first(row.as_mut_ptr().add(first), S::sums(&products), count);
            }
            Softmax { row: &mut *row, padding, scale, masked }.run::<S>();
            for from in (0..width).step_by(SUMS * S::LANES) {
                let lanes: [usize; SUMS] = std::array::from_fn(|at| {
                    S::LANES.min(width.saturating_sub(from + at * S::LANES))
                });
                let mut sums = [S::zero(); SUMS];
                for (at, &weight) in row.iter().enumerate() {
                    let value = value.values.as_ptr().add(at * value.stride + from);
                    let weight = S::splat(weight);
                    for (part, sum) in sums.iter_mut().enumerate() {
                        if lanes[part] > 0 {
                            let value = S::load_first(value.add(part * S::LANES), lanes[part]);
                            *sum = S::fma(weight, value, *sum);
                        }
                    }
                }
                for (part, sum) in sums.into_iter().enumerate() {
                    if lanes[part] > 0 {
                        let to = context.as_mut_ptr().add(from + part * S::LANES);
                        S::store_first(to, sum, lanes[part]);
                    }
                }
            }
        }
    }
}
