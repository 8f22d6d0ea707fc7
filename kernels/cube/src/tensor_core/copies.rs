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
    /// One past the last kept column of this cube.
    pub(crate) end: usize,
    /// `true` if this thread's tokens are not past the last.
    inside: bool,
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
    tile: usize,
    end: usize,
    pitch: usize,
    cols: usize,
    #[comptime] ring: Ring,
    #[comptime] engine: Engine,
) -> Reach {
    let first = tile * comptime!(ring.tokens);
    let x = share(comptime!(ring.tokens), ring);
    let values = share(comptime!(ring.vector), ring);
    let inside = first + x.at < pitch;
    let base = address_of::<F>(memory, engine);
    Reach { end, inside, first, pitch, cols, x, values, base }
}

/// Starts the copies of one stage: kept columns starting at `from`, whose ids start at `ids_at`, with zeros past the
/// group's end and past the last token.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(crate) fn fill<F: Float>(
    x: &[F],
    values: &[F],
    ids: &[u32],
    ids_at: usize,
    memory: &mut [F],
    slot: usize,
    from: usize,
    reach: &Reach,
    #[comptime] ring: Ring,
    #[comptime] engine: Engine,
) {
    // All ids are read first: compilers do not move loads across the copies' inline assembly.
    let mut rows = Array::<usize>::new(comptime!(ring.pieces(ring.tokens)));
    #[unroll]
    for i in 0..comptime!(ring.pieces(ring.tokens)) {
        let at = reach.x.row + comptime!(i * ring.pass(ring.tokens));
        // If a pass covers more than a stage, its last threads take no part.
        let at = if comptime!(ring.pass(ring.tokens) > ring.depth) {
            at % comptime!(ring.depth)
        } else {
            at
        };
        rows[i] = ids[ids_at + at] as usize;
    }
    let to = slot * comptime!(ring.stage(ring.tokens)) + reach.x.target;
    #[unroll]
    for i in 0..comptime!(ring.pieces(ring.tokens)) {
        if takes_part(&reach.x, comptime!(ring.tokens), ring) {
            // Avoids reading outside of `x`, whatever the buffer of ids holds.
            let keep = reach.inside && rows[i] < reach.cols;
            let source = rows[i] * reach.pitch + reach.first + reach.x.at;
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
