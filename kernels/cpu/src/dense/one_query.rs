use crate::simd::{Simd, Work};

use super::heads::Vectors;
use super::softmax::Softmax;

/// Attention of one query to keys and values in place, as in a decoding step.
pub(super) struct OneQuery<'a> {
    pub(super) query: &'a [f32],
    /// Keys and values of as many positions as there are scores, each as long as the query.
    pub(super) key: Vectors<'a>,
    pub(super) value: Vectors<'a>,
    /// Softmax whose row receives the scores.
    pub(super) softmax: Softmax<'a>,
    /// Destination of the weighted mean of the values.
    pub(super) context: &'a mut [f32],
}

/// Number of vectors of the query, or of the context, that are kept in registers together.
const PARTS: usize = 4;

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
        let strides = (key.stride, value.stride);
        // SAFETY: the slices hold all vectors, as asserted; the instruction set is guaranteed by the caller.
        unsafe {
            for first in (0..keys).step_by(S::LANES) {
                let count = S::LANES.min(keys - first);
                let mut products = [S::zero(); 16];
                for from in (0..width).step_by(PARTS * S::LANES) {
                    let query = query.as_ptr().add(from);
                    let key = key.values.as_ptr().add(first * key.stride + from);
                    let lanes = lanes::<S>(width - from);
                    if lanes[PARTS - 1] == S::LANES {
                        multiply::<S, true>(query, key, strides.0, lanes, &mut products, count);
                    } else {
                        multiply::<S, false>(query, key, strides.0, lanes, &mut products, count);
                    }
                }
                S::store_first(row.as_mut_ptr().add(first), S::sums(&products), count);
            }
            Softmax { row: &mut *row, padding, scale, masked }.run::<S>();
            for from in (0..width).step_by(PARTS * S::LANES) {
                let (to, value) = (context.as_mut_ptr().add(from), value.values.as_ptr().add(from));
                let lanes = lanes::<S>(width - from);
                if lanes[PARTS - 1] == S::LANES {
                    mean::<S, true>(row, value, strides.1, lanes, to);
                } else {
                    mean::<S, false>(row, value, strides.1, lanes, to);
                }
            }
        }
    }
}

/// Returns the number of floats in each of the next vectors, of `left` remaining floats.
#[inline(always)]
fn lanes<S: Simd>(left: usize) -> [usize; PARTS] {
    std::array::from_fn(|part| S::LANES.min(left.saturating_sub(part * S::LANES)))
}

/// Loads the first `count` floats of a vector, or all of them if `WHOLE`.
#[inline(always)]
unsafe fn load<S: Simd, const WHOLE: bool>(from: *const f32, count: usize) -> S::F {
    // SAFETY: guaranteed by the caller.
    unsafe { if WHOLE { S::load(from) } else { S::load_first(from, count) } }
}

/// Adds the products of the query's next vectors with those of `count` keys.
#[inline(always)]
unsafe fn multiply<S: Simd, const WHOLE: bool>(
    query: *const f32,
    key: *const f32,
    stride: usize,
    lanes: [usize; PARTS],
    products: &mut [S::F; 16],
    count: usize,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut of_query = [S::zero(); PARTS];
        for part in 0..PARTS {
            if WHOLE || lanes[part] > 0 {
                of_query[part] = load::<S, WHOLE>(query.add(part * S::LANES), lanes[part]);
            }
        }
        for (at, sum) in products.iter_mut().enumerate().take(count) {
            let key = key.add(at * stride);
            for part in 0..PARTS {
                if WHOLE || lanes[part] > 0 {
                    let of_key = load::<S, WHOLE>(key.add(part * S::LANES), lanes[part]);
                    *sum = S::fma(of_query[part], of_key, *sum);
                }
            }
        }
    }
}

/// Writes the weighted mean of the next vectors of all values.
#[inline(always)]
unsafe fn mean<S: Simd, const WHOLE: bool>(
    weights: &[f32],
    value: *const f32,
    stride: usize,
    lanes: [usize; PARTS],
    to: *mut f32,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        // Separate sums for even and odd values, which do not wait for each other.
        let mut sums = [[S::zero(); PARTS]; 2];
        for (pair, weights) in weights.chunks(2).enumerate() {
            for (at, &weight) in weights.iter().enumerate() {
                let (weight, value) = (S::splat(weight), value.add((2 * pair + at) * stride));
                for part in 0..PARTS {
                    if WHOLE || lanes[part] > 0 {
                        let value = load::<S, WHOLE>(value.add(part * S::LANES), lanes[part]);
                        sums[at][part] = S::fma(weight, value, sums[at][part]);
                    }
                }
            }
        }
        for part in 0..PARTS {
            if WHOLE || lanes[part] > 0 {
                let sum = S::add(sums[0][part], sums[1][part]);
                S::store_first(to.add(part * S::LANES), sum, lanes[part]);
            }
        }
    }
}
