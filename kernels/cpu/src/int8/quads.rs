//! Quads of weights, in 8 or in 4 bits.

use burn_sparse_pattern::format::{LEVELS, level_code};

use super::dots::{Dots, QUAD_BYTES, level};

/// A quad of every row of a strip, on one cache line.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
pub(super) struct Quad(pub(super) [i8; QUAD_BYTES]);

/// A quad of every row of a strip as codes of levels: those of its first half in the lower halves of bytes, those of its
/// second half in the upper ones.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(32))]
pub(super) struct HalfQuad([u8; QUAD_BYTES / 2]);

/// A quad of levels, in 8 bits each.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Levels(
    #[expect(dead_code, reason = "kernels read it through pointers")] [i8; QUAD_BYTES],
);

/// All quads of a weight.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Quads {
    Bytes(Vec<Quad>),
    Codes(Vec<HalfQuad>),
}

/// Extent of the scales of weights: a row, or a block of its columns.
pub(super) trait InBlocks: 'static {
    /// `true` if every block of columns has its own scales.
    const IN_BLOCKS: bool;
}

/// A quad as it is stored.
pub(super) trait Stored: InBlocks + Copy {
    /// Adds to the sum of every row the products of its quad.
    ///
    /// # Safety
    /// Same as for [`Dots`].
    unsafe fn dot<D: Dots>(sums: D::Sums, inputs: D::Bytes, weights: *const Self) -> D::Sums;
}

impl InBlocks for Quad {
    const IN_BLOCKS: bool = false;
}

impl Stored for Quad {
    #[inline(always)]
    unsafe fn dot<D: Dots>(sums: D::Sums, inputs: D::Bytes, weights: *const Self) -> D::Sums {
        // SAFETY: guaranteed by the caller.
        unsafe { D::dot(sums, inputs, weights.cast()) }
    }
}

impl InBlocks for HalfQuad {
    const IN_BLOCKS: bool = true;
}

impl Stored for HalfQuad {
    #[inline(always)]
    unsafe fn dot<D: Dots>(sums: D::Sums, inputs: D::Bytes, weights: *const Self) -> D::Sums {
        // SAFETY: guaranteed by the caller.
        unsafe { D::dot_codes(sums, inputs, weights.cast()) }
    }
}

impl InBlocks for Levels {
    const IN_BLOCKS: bool = true;
}

impl Stored for Levels {
    #[inline(always)]
    unsafe fn dot<D: Dots>(sums: D::Sums, inputs: D::Bytes, weights: *const Self) -> D::Sums {
        // SAFETY: guaranteed by the caller.
        unsafe { D::dot(sums, inputs, weights.cast()) }
    }
}

impl Levels {
    /// Returns the level of a code in the lower half of a byte.
    pub(super) fn of(code: u8) -> i8 {
        LEVELS[usize::from(code & 0xf)]
    }
}

impl Quad {
    pub(super) const ZERO: Self = Self([0; QUAD_BYTES]);

    /// Returns the quad as codes of levels.
    pub(super) fn codes(&self) -> HalfQuad {
        let (first, second) = self.0.split_at(QUAD_BYTES / 2);
        HalfQuad(std::array::from_fn(|at| level_code(first[at]) | level_code(second[at]) << 4))
    }
}

impl Quads {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bytes(quads) => quads.len(),
            Self::Codes(quads) => quads.len(),
        }
    }

    /// Returns the number of bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Bytes(quads) => size_of_val(quads.as_slice()),
            Self::Codes(quads) => size_of_val(quads.as_slice()),
        }
    }

    /// Returns the weight at a place of a quad.
    pub(super) fn weight(&self, quad: usize, place: usize) -> i8 {
        match self {
            Self::Bytes(quads) => quads[quad].0[place],
            Self::Codes(quads) => level(&quads[quad].0, place),
        }
    }
}
