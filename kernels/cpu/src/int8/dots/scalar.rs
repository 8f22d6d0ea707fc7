use super::{Dots, QUAD, QUAD_BYTES, level};
use crate::layout::TILE_ROWS;
use crate::simd::Scalar;

/// No special instructions.
#[derive(Clone, Copy)]
pub(crate) struct ScalarBytes;

impl Dots for ScalarBytes {
    type Floats = Scalar;
    type Sums = [i32; TILE_ROWS];
    type Bytes = [i8; QUAD_BYTES];
    type Table = *const u8;
    type Index = *const u8;
    const TOKENS: usize = 1;
    const WAITS: bool = false;

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        [0; TILE_ROWS]
    }
    #[inline(always)]
    unsafe fn add(a: Self::Sums, b: Self::Sums) -> Self::Sums {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn scaled(to: *mut f32, sums: Self::Sums, scale: f32) {
        for (at, sum) in sums.into_iter().enumerate() {
            // SAFETY: guaranteed by the caller, as in every method below.
            unsafe { *to.add(at) += sum as f32 * scale };
        }
    }
    #[inline(always)]
    unsafe fn inputs(from: *const u8) -> Self::Bytes {
        // SAFETY: as in `scaled`.
        std::array::from_fn(|i| unsafe { *from.add(i % QUAD) } as i8)
    }
    #[inline(always)]
    unsafe fn table(from: *const u8) -> Self::Table {
        from
    }
    #[inline(always)]
    unsafe fn index<const PERIOD: usize>(from: *const u8) -> Self::Index {
        from
    }
    #[inline(always)]
    unsafe fn look_up<const PERIOD: usize>(table: Self::Table, index: Self::Index) -> Self::Bytes {
        // SAFETY: as in `scaled`.
        std::array::from_fn(|i| unsafe {
            *table.add(usize::from(*index.add(i % (QUAD * PERIOD)))) as i8
        })
    }
    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, inputs: Self::Bytes, weights: *const i8) -> Self::Sums {
        // SAFETY: as in `scaled`.
        multiply_add(sums, inputs, unsafe { weights.cast::<Self::Bytes>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn dot_codes(sums: Self::Sums, inputs: Self::Bytes, codes: *const u8) -> Self::Sums {
        // SAFETY: as in `scaled`.
        let codes = unsafe { codes.cast::<[u8; QUAD_BYTES / 2]>().read_unaligned() };
        multiply_add(sums, inputs, std::array::from_fn(|place| level(&codes, place)))
    }
    #[inline(always)]
    unsafe fn quantize(from: *const f32, inverse: f32, to: *mut u8) {
        for at in 0..TILE_ROWS {
            // SAFETY: as in `scaled`.
            unsafe { *to.add(at) = (*from.add(at) * inverse).round_ties_even() as i8 as u8 };
        }
    }
}

/// Adds to the sum of every row the products of its quad.
#[inline(always)]
fn multiply_add(
    sums: [i32; TILE_ROWS],
    inputs: [i8; QUAD_BYTES],
    weights: [i8; QUAD_BYTES],
) -> [i32; TILE_ROWS] {
    std::array::from_fn(|row| {
        let quad = row * QUAD..(row + 1) * QUAD;
        let products = inputs[quad.clone()].iter().zip(&weights[quad]);
        sums[row] + products.map(|(&x, &w)| i32::from(x) * i32::from(w)).sum::<i32>()
    })
}
