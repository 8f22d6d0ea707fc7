//! Copies that fill the ring: each thread copies its pieces of every stage, whose positions are computed once.

use cubecl::prelude::*;

use super::Engine;
use super::instructions::{address_of, commit, copy8};
use super::ring::{PIECE, Placement, Ring, SPAN};

/// Pieces of one operand that a thread copies in every stage: at the same offset in rows one pass apart.
/// Everything that does not change from stage to stage is computed here, once.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Share {
    /// First of the rows.
    row: usize,
    /// Elements from the beginning of a row to the piece.
    at: usize,
    /// Destination of the first piece, relative to the beginning of the operand's stage.
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

/// Returns `true` if this thread's pieces are within a stage: always, unless one pass covers more than a stage.
#[cube]
fn takes_part(share: &Share, #[comptime] width: usize, #[comptime] ring: Ring) -> bool {
    comptime!(ring.pass(width) <= ring.depth) || share.row < comptime!(ring.depth)
}

/// Parts of the operands that a cube reads, and this thread's share of them.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Reach {
    /// One past the last kept column of this cube; `end_of_x` is the same for this thread's part of `x`, or 0 if
    /// its tokens are past the last.
    end: usize,
    end_of_x: usize,
    /// First token of the tile.
    pub(crate) first: usize,
    /// Elements from one row of `x` to the next.
    pub(crate) pitch: usize,
    /// Rows of `x`.
    cols: usize,
    x: Share,
    values: Share,
    /// Address of the rings in shared memory.
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

/// Placeholder id for no column: past every column.
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

/// Starts the copies of one stage: kept columns starting at `from`, with zeros past the group's end and past the
/// last token.
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
            // Avoids reading outside of `x`, whatever the buffer of ids holds.
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
