//! Division of the work of the `wgmma` kernel.

use super::instructions::WARP;
use super::ring::{Placement, Ring, SPAN};

/// Threads that issue one instruction together.
pub(super) const WARPGROUP: usize = 4 * WARP;
/// Rows per instruction.
pub(super) const ROWS: usize = 64;
/// Bytes per swizzled row: 64 elements.
pub(super) const SPAN_BYTES: usize = 2 * SPAN;

/// Tiles of tokens in a band. On an H200, 4 are 2 to 5 % faster than 1 at 75 % sparsity and 3 % slower at 90 %.
const BAND: usize = 4;

/// Division of a cube's work: one warpgroup for each 64 rows and each share of the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WideTile {
    /// Rows per group: 64 or 128.
    pub vector: usize,
    /// Tokens per cube.
    pub tokens: usize,
    /// Kept columns per stage: a multiple of 16.
    pub depth: usize,
    /// Number of stages in the ring.
    pub stages: usize,
    /// Number of warpgroups along the tokens.
    pub across: usize,
    /// Number of tiles of tokens that run together for each group of rows.
    pub band: usize,
}

impl WideTile {
    /// Returns the tiles for groups of `vector` rows, starting with the one to run without measurement; empty if
    /// no kernel fits.
    ///
    /// Each takes at most half of a multiprocessor's shared memory, so that two cubes hide each other's first copies
    /// and epilogues: tiles that take all of it read less for each product, but were slower on an H200.
    pub fn of(vector: usize) -> &'static [Self] {
        match vector {
            64 => &[
                Self { vector: 64, tokens: 256, depth: 32, stages: 5, across: 2, band: BAND },
                // For fewer tokens, when the first tile's cubes would not fill the device.
                Self { vector: 64, tokens: 128, depth: 64, stages: 4, across: 1, band: BAND },
            ],
            128 => {
                &[Self { vector: 128, tokens: 128, depth: 64, stages: 3, across: 1, band: BAND }]
            }
            _ => &[],
        }
    }

    pub(crate) fn check(&self) {
        assert!(self.across > 0 && self.band > 0, "{self:?}: no tokens");
        let width = self.width();
        assert!(self.vector.is_multiple_of(ROWS), "{self:?}: rows of a warpgroup");
        assert!(width.is_multiple_of(SPAN) && width <= 256, "{self:?}: tokens of a warpgroup");
        self.ring().check();
    }

    pub(crate) fn ring(&self) -> Ring {
        let Self { vector, tokens, depth, stages, across, .. } = *self;
        let threads = vector / ROWS * across * WARPGROUP;
        Ring { vector, tokens, depth, stages, threads, placement: Placement::Swizzled }
    }

    /// Returns the number of tokens per warpgroup: the width of the instruction.
    pub(super) fn width(&self) -> usize {
        self.tokens / self.across
    }

    /// Returns the number of sums per thread.
    pub(super) fn sums(&self) -> usize {
        self.width() / 2
    }

    /// Returns the number of bytes between two columns of 64 elements.
    pub(super) fn leading(&self) -> usize {
        self.depth * SPAN_BYTES
    }
}
