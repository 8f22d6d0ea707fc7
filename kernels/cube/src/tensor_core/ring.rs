//! The ring of stages in shared memory that asynchronous copies fill ahead of the multiplication, and
//! the way out: whole rows of the output tile, scattered to their places.

use cubecl::prelude::*;

use super::Engine;
use super::instructions::{commit, copy8};
use crate::store::row_of;

/// Elements of a copy: 16 bytes.
pub(crate) const PIECE: usize = 8;
/// Elements between two padded rows beyond their length: 16 bytes shift the banks, so that eight rows of
/// a fragment meet all of them.
const PAD: usize = 8;
/// Elements of a swizzled row: 128 bytes.
pub(crate) const SPAN: usize = 64;

/// How a stage's rows lie in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Placement {
    /// One after the other, padded: for `ldmatrix`.
    Padded,
    /// In columns of 128 bytes, whose eight pieces are exchanged by the row's number modulo eight: the
    /// 128-byte swizzle of `wgmma`'s MN-major operands.
    Swizzled,
}

/// One group by a tile of tokens, in stages of kept columns.
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
    /// Elements from one padded row of `width` to the next.
    pub(crate) fn pitch(width: usize) -> usize {
        width + PAD
    }

    /// Elements of one operand's ring, `width` to a row.
    fn len(&self, width: usize) -> usize {
        let row = match self.placement {
            Placement::Padded => Self::pitch(width),
            Placement::Swizzled => width,
        };
        self.stages * self.depth * row
    }

    /// Elements of both rings: the gathered rows of `x`, then the values.
    pub(crate) fn memory(&self) -> usize {
        self.values_at() + self.len(self.vector)
    }

    /// Where the values begin.
    pub(crate) fn values_at(&self) -> usize {
        self.len(self.tokens)
    }

    /// Pieces of a stage that one thread copies, at most.
    fn pieces(&self, width: usize) -> usize {
        (self.depth * width / PIECE).div_ceil(self.threads)
    }

    pub(crate) fn ids(&self) -> usize {
        self.pieces(self.tokens)
    }

    pub(crate) fn check(&self) {
        let Self { vector, tokens, depth, stages, .. } = *self;
        assert!(depth.is_multiple_of(16) && stages >= 2, "{self:?}: stages");
        let span = if self.placement == Placement::Swizzled { SPAN } else { 16 };
        assert!(vector.is_multiple_of(span) && tokens.is_multiple_of(span), "{self:?}: widths");
        assert!(vector * Self::pitch(tokens) <= self.memory(), "{self:?}: no room for the output");
    }
}

/// Where elements `at` and following of row `row` of slot `slot` lie in a ring of `width` to a row.
#[cube]
fn lies(
    slot: usize,
    row: usize,
    at: usize,
    #[comptime] width: usize,
    #[comptime] ring: Ring,
) -> usize {
    match comptime!(ring.placement) {
        Placement::Padded => {
            (slot * comptime!(ring.depth) + row) * comptime!(Ring::pitch(width)) + at
        }
        Placement::Swizzled => {
            let piece = (at % SPAN / PIECE) ^ (row % 8);
            slot * comptime!(ring.depth * width)
                + at / SPAN * comptime!(ring.depth * SPAN)
                + row * SPAN
                + piece * PIECE
        }
    }
}

/// Reads the column ids of the pieces that this thread copies for the stage starting at `from`.
#[cube]
pub(crate) fn read_ids(
    ids: &mut Array<u32>,
    columns: &[u32],
    from: usize,
    end: usize,
    #[comptime] ring: Ring,
) {
    #[unroll]
    for i in 0..comptime!(ring.ids()) {
        let piece = UNIT_POS as usize + comptime!(i * ring.threads);
        let kept = from + piece / comptime!(ring.tokens / PIECE);
        ids[i] = columns[select(kept < end, kept, 0)];
    }
}

/// Where this cube's slice of a group's kept columns begins and ends: whole stages of `depth`.
#[cube]
pub(crate) fn slice_of(offsets: &[u32], group: usize, #[comptime] depth: usize) -> (usize, usize) {
    let (begin, end) = (offsets[group] as usize, offsets[group + 1] as usize);
    let stages = (end - begin).div_ceil(depth);
    let each = stages.div_ceil(CUBE_COUNT_Z as usize) * depth;
    let from = min(begin + CUBE_POS_Z as usize * each, end);
    (from, min(from + each, end))
}

/// What a cube reads of its operands.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Reach {
    /// One past the group's last kept column.
    pub(crate) end: usize,
    /// The tile's first token.
    pub(crate) first: usize,
    /// Elements from one row of `x` to the next.
    pub(crate) pitch: usize,
    /// Rows of `x`.
    pub(crate) cols: usize,
}

/// Starts the copies of one stage: kept columns `from` and following, zeros from the group's end and
/// past the last token.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(crate) fn fill<F: Float>(
    x: &[F],
    values: &[F],
    ids: &Array<u32>,
    memory: &mut [F],
    slot: usize,
    from: usize,
    reach: &Reach,
    #[comptime] ring: Ring,
    #[comptime] engine: Engine,
) {
    #[unroll]
    for i in 0..comptime!(ring.pieces(ring.tokens)) {
        let piece = UNIT_POS as usize + comptime!(i * ring.threads);
        let row = piece / comptime!(ring.tokens / PIECE);
        let at = piece % comptime!(ring.tokens / PIECE) * PIECE;
        if row < comptime!(ring.depth) {
            let keep = from + row < reach.end && reach.first + at < reach.pitch;
            // An id is a place in memory: whatever its buffer holds, it stays inside `x`.
            let col = min(ids[i] as usize, reach.cols - 1);
            let source = select(keep, col * reach.pitch + reach.first + at, 0);
            let target = lies(slot, row, at, comptime!(ring.tokens), ring);
            copy8::<F>(x, source, memory, target, keep, engine);
        }
    }
    #[unroll]
    for i in 0..comptime!(ring.pieces(ring.vector)) {
        let piece = UNIT_POS as usize + comptime!(i * ring.threads);
        let row = piece / comptime!(ring.vector / PIECE);
        let at = piece % comptime!(ring.vector / PIECE) * PIECE;
        if row < comptime!(ring.depth) {
            let keep = from + row < reach.end;
            let source = select(keep, (from + row) * comptime!(ring.vector) + at, 0);
            let target =
                comptime!(ring.values_at()) + lies(slot, row, at, comptime!(ring.vector), ring);
            copy8::<F>(values, source, memory, target, keep, engine);
        }
    }
    commit(engine);
}

/// The row at `place`, or row 0 past the last, where nothing is stored.
#[cube]
pub(crate) fn row_at(order: &[u32], place: usize, rows: usize, #[comptime] ordered: bool) -> usize {
    // An unchecked kernel: whatever the order's buffer holds, the row exists.
    min(row_of(order, select(place < rows, place, 0), ordered), rows - 1)
}

/// Eight elements, the first a multiple of eight.
#[cube]
fn piece_at<F: Float>(tile: &[F], from: usize, #[comptime] engine: Engine) -> Vector<F, Const<8>> {
    match comptime!(engine) {
        Engine::Ptx => tile.as_vectorized().with_vector_size::<Const<8>>()[from / PIECE],
        // Not every runtime reads shared memory as anything but what it is declared as.
        Engine::Plain => {
            let mut piece = Vector::<F, Const<8>>::empty();
            #[unroll]
            for i in 0..PIECE {
                piece.insert(i, tile[from + i]);
            }
            piece
        }
    }
}

/// Stores the output tile `[vector][Ring::pitch(tokens)]` to `y [rows][pitch]`, each row to its place.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(crate) fn store_rows<F: Float>(
    tile: &[F],
    order: &[u32],
    y: &mut [Vector<F, Const<8>>],
    group: usize,
    rows: usize,
    reach: &Reach,
    #[comptime] ordered: bool,
    #[comptime] ring: Ring,
    #[comptime] engine: Engine,
) {
    let mut piece = UNIT_POS as usize;
    while piece < comptime!(ring.vector * ring.tokens / PIECE) {
        let line = piece / comptime!(ring.tokens / PIECE);
        let at = piece % comptime!(ring.tokens / PIECE) * PIECE;
        let place = group * comptime!(ring.vector) + line;
        if place < rows && reach.first + at < reach.pitch {
            let row = row_at(order, place, rows, ordered);
            let from = line * comptime!(Ring::pitch(ring.tokens)) + at;
            y[(row * reach.pitch + reach.first + at) / PIECE] = piece_at::<F>(tile, from, engine);
        }
        piece += comptime!(ring.threads);
    }
}
