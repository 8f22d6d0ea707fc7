//! Ring of stages in shared memory, filled by asynchronous copies ahead of the multiplication.

use cubecl::prelude::*;

/// Elements per copy: 16 bytes.
pub(crate) const PIECE: usize = 8;
/// Padding elements at the end of a row: shifting the banks by 16 bytes makes eight rows of a fragment cover all
/// of them.
const PAD: usize = 8;
/// Elements per swizzled row: 128 bytes.
pub(crate) const SPAN: usize = 64;

/// Layout of a stage's rows in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Placement {
    /// Consecutive padded rows, for `ldmatrix`.
    Padded,
    /// Columns of 128 bytes, whose eight pieces are permuted by the row index modulo eight: the 128-byte swizzle
    /// of `wgmma`'s MN-major operands.
    Swizzled,
}

/// Stages of kept columns for one group by a tile of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ring {
    pub(crate) vector: usize,
    pub(crate) tokens: usize,
    pub(crate) depth: usize,
    pub(crate) stages: usize,
    pub(crate) threads: usize,
    pub(crate) placement: Placement,
}

impl Ring {
    /// Returns the number of elements from one padded row of `width` to the next.
    pub(crate) fn pitch(width: usize) -> usize {
        width + PAD
    }

    /// Returns the number of elements of one operand's stage, with `width` elements per row.
    pub(crate) fn stage(&self, width: usize) -> usize {
        let row = match self.placement {
            Placement::Padded => Self::pitch(width),
            Placement::Swizzled => width,
        };
        self.depth * row
    }

    /// Returns the number of elements of one operand's ring.
    fn len(&self, width: usize) -> usize {
        self.stages * self.stage(width)
    }

    /// Returns the number of rows that all threads copy at once, one piece per thread.
    pub(crate) fn pass(&self, width: usize) -> usize {
        self.threads / (width / PIECE)
    }

    /// Returns the number of elements from a piece to that of the next pass.
    pub(crate) fn step(&self, width: usize) -> usize {
        let row = match self.placement {
            Placement::Padded => Self::pitch(width),
            Placement::Swizzled => SPAN,
        };
        self.pass(width) * row
    }

    /// Returns the number of elements of both rings: the gathered rows of `x`, followed by the values.
    pub(crate) fn memory(&self) -> usize {
        self.values_at() + self.len(self.vector)
    }

    /// Returns the number of bytes of shared memory that a cube takes: both rings of elements of `bytes` bytes, and two
    /// halves of ids.
    pub(crate) fn bytes(&self, bytes: usize) -> usize {
        self.memory() * bytes + 2 * self.ids_per_half() * size_of::<u32>()
    }

    /// Returns the offset at which the values begin.
    pub(crate) fn values_at(&self) -> usize {
        self.len(self.tokens)
    }

    /// Returns the maximum number of pieces of a stage that one thread copies.
    pub(crate) fn pieces(&self, width: usize) -> usize {
        self.depth.div_ceil(self.pass(width))
    }

    /// Returns the number of column ids of as many stages as the ring has.
    pub(crate) fn ids_per_half(&self) -> usize {
        self.stages * self.depth
    }

    /// Returns the number of these ids that one thread loads.
    pub(crate) fn held(&self) -> usize {
        self.ids_per_half().div_ceil(self.threads)
    }

    /// Returns the number of pieces of the output tile that one thread stores.
    pub(crate) fn pieces_stored(&self) -> usize {
        self.vector * self.tokens / PIECE / self.threads
    }

    pub(crate) fn check(&self) {
        let Self { vector, tokens, depth, stages, .. } = *self;
        assert!(depth.is_multiple_of(16) && stages >= 2, "{self:?}: stages");
        let span = if self.placement == Placement::Swizzled { SPAN } else { 16 };
        assert!(vector.is_multiple_of(span) && tokens.is_multiple_of(span), "{self:?}: widths");
        assert!(vector * Self::pitch(tokens) <= self.memory(), "{self:?}: no room for the output");
        for width in [vector, tokens] {
            assert!(self.threads.is_multiple_of(width / PIECE), "{self:?}: rows of a pass");
            let rows = self.pass(width);
            // A thread's pieces must be swizzled the same way in every pass.
            assert!(
                self.placement == Placement::Padded || rows.is_multiple_of(8),
                "{self:?}: swizzle"
            );
            assert!(rows >= self.depth || self.depth.is_multiple_of(rows), "{self:?}: passes");
        }
    }
}

/// Returns the group of rows and the tile of tokens that this cube multiplies.
///
/// Cubes start roughly in the order of their index. Within a band, a group's tiles of tokens are consecutive, so that
/// its weights are read from memory once. Bands follow one another, and one band's `x` is meant to fit in the cache.
#[cube]
pub(crate) fn place(#[comptime] band: usize) -> (usize, usize) {
    let (groups, tiles) = (CUBE_COUNT_X as usize, CUBE_COUNT_Y as usize);
    let at = CUBE_POS_Y as usize * groups + CUBE_POS_X as usize;
    let first = at / (groups * band) * band;
    let width = min(tiles - first, band.runtime());
    let rest = at - first * groups;
    (rest / width, first + rest % width)
}

/// Returns the start and end of this cube's slice of a group's kept columns, in whole stages of `depth`.
#[cube]
pub(crate) fn slice_of(offsets: &[u32], group: usize, #[comptime] depth: usize) -> (usize, usize) {
    let (begin, end) = (offsets[group] as usize, offsets[group + 1] as usize);
    let stages = (end - begin).div_ceil(depth);
    let each = stages.div_ceil(CUBE_COUNT_Z as usize) * depth;
    let from = min(begin + CUBE_POS_Z as usize * each, end);
    (from, min(from + each, end))
}

/// Returns the slot after `slot`, wrapping around at the end of the ring.
#[cube]
pub(crate) fn next(slot: usize, #[comptime] ring: Ring) -> usize {
    select(slot + 1 == comptime!(ring.stages), 0, slot + 1)
}
