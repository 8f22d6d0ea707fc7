//! The ring of stages in shared memory that asynchronous copies fill ahead of the multiplication, and
//! the way out: whole rows of the output tile, scattered to their places.

use cubecl::prelude::*;

use super::Engine;
use super::instructions::{address_of, commit, copy8};
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

    /// Elements of one operand's stage, `width` to a row.
    fn stage(&self, width: usize) -> usize {
        let row = match self.placement {
            Placement::Padded => Self::pitch(width),
            Placement::Swizzled => width,
        };
        self.depth * row
    }

    /// Elements of one operand's ring.
    fn len(&self, width: usize) -> usize {
        self.stages * self.stage(width)
    }

    /// Rows that all threads copy at once, a piece each.
    fn pass(&self, width: usize) -> usize {
        self.threads / (width / PIECE)
    }

    /// Elements from a piece to that of the next pass.
    fn step(&self, width: usize) -> usize {
        let row = match self.placement {
            Placement::Padded => Self::pitch(width),
            Placement::Swizzled => SPAN,
        };
        self.pass(width) * row
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
        self.depth.div_ceil(self.pass(width))
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
        for width in [vector, tokens] {
            assert!(self.threads.is_multiple_of(width / PIECE), "{self:?}: rows of a pass");
            let rows = self.pass(width);
            // A thread's pieces are exchanged alike in every pass.
            assert!(
                self.placement == Placement::Padded || rows.is_multiple_of(8),
                "{self:?}: swizzle"
            );
            assert!(rows >= self.depth || self.depth.is_multiple_of(rows), "{self:?}: passes");
        }
    }
}

/// What a thread copies of every stage of one operand: pieces at the same place of rows that lie a pass apart. All
/// that does not change from stage to stage is decided here, once.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Share {
    /// The first of the rows.
    row: usize,
    /// Elements from a row's beginning to the piece.
    at: usize,
    /// Where the first piece goes, from the beginning of the operand's stage.
    target: usize,
}

#[cube]
fn share(#[comptime] width: usize, #[comptime] ring: Ring) -> Share {
    let row = UNIT_POS as usize / comptime!(width / PIECE);
    let at = UNIT_POS as usize % comptime!(width / PIECE) * PIECE;
    let target = match comptime!(ring.placement) {
        Placement::Padded => row * comptime!(Ring::pitch(width)) + at,
        Placement::Swizzled => {
            let piece = (at % SPAN / PIECE) ^ (row % 8);
            at / SPAN * comptime!(ring.depth * SPAN) + row * SPAN + piece * PIECE
        }
    };
    Share { row, at, target }
}

/// Whether this thread's pieces are rows of a stage: always, but where one pass is more than a stage.
#[cube]
fn takes_part(share: &Share, #[comptime] width: usize, #[comptime] ring: Ring) -> bool {
    comptime!(ring.pass(width) <= ring.depth) || share.row < comptime!(ring.depth)
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

/// What a cube reads of its operands, and this thread of them.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Reach {
    /// One past the last kept column, of this cube and for this thread: none of `x` where its tokens are past the last.
    end: usize,
    end_of_x: usize,
    /// The tile's first token.
    pub(crate) first: usize,
    /// Elements from one row of `x` to the next.
    pub(crate) pitch: usize,
    /// Rows of `x`.
    cols: usize,
    x: Share,
    values: Share,
    /// Where the rings are in shared memory.
    pub(crate) base: u32,
}

#[cube]
pub(crate) fn reach<F: Float>(
    memory: &[F],
    end: usize,
    pitch: usize,
    cols: usize,
    #[comptime] ring: Ring,
    #[comptime] engine: Engine,
) -> Reach {
    let first = CUBE_POS_Y as usize * comptime!(ring.tokens);
    let x = share(comptime!(ring.tokens), ring);
    let values = share(comptime!(ring.vector), ring);
    let end_of_x = select(first + x.at < pitch, end, 0);
    let base = address_of::<F>(memory, engine);
    Reach { end, end_of_x, first, pitch, cols, x, values, base }
}

/// No column: past every one there is.
const NONE: u32 = u32::MAX;

/// Reads the column ids of the pieces that this thread copies for the stage starting at `from`.
#[cube]
pub(crate) fn read_ids(
    ids: &mut Array<u32>,
    columns: &[u32],
    from: usize,
    reach: &Reach,
    #[comptime] ring: Ring,
) {
    #[unroll]
    for i in 0..comptime!(ring.ids()) {
        let kept = from + reach.x.row + comptime!(i * ring.pass(ring.tokens));
        let mut id = NONE.runtime();
        if kept < reach.end_of_x {
            id = columns[kept];
        }
        ids[i] = id;
    }
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
    let to = slot * comptime!(ring.stage(ring.tokens)) + reach.x.target;
    #[unroll]
    for i in 0..comptime!(ring.pieces(ring.tokens)) {
        if takes_part(&reach.x, comptime!(ring.tokens), ring) {
            // Whatever the ids' buffer holds, nothing outside of `x` is read.
            let keep = (ids[i] as usize) < reach.cols;
            let source = ids[i] as usize * reach.pitch + reach.first + reach.x.at;
            let target = to + comptime!(i * ring.step(ring.tokens));
            copy8::<F>(x, source, memory, reach.base, target, keep, engine);
        }
    }
    let to = comptime!(ring.values_at())
        + slot * comptime!(ring.stage(ring.vector))
        + reach.values.target;
    let first = (from + reach.values.row) * comptime!(ring.vector) + reach.values.at;
    #[unroll]
    for i in 0..comptime!(ring.pieces(ring.vector)) {
        if takes_part(&reach.values, comptime!(ring.vector), ring) {
            let keep = from + reach.values.row + comptime!(i * ring.pass(ring.vector)) < reach.end;
            let source = first + comptime!(i * ring.pass(ring.vector) * ring.vector);
            let target = to + comptime!(i * ring.step(ring.vector));
            copy8::<F>(values, source, memory, reach.base, target, keep, engine);
        }
    }
    commit(engine);
}

/// The slot after this one.
#[cube]
pub(crate) fn next(slot: usize, #[comptime] ring: Ring) -> usize {
    select(slot + 1 == comptime!(ring.stages), 0, slot + 1)
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
