//! Output of the tensor-core kernels: scatters whole rows of the output tile to their places.

use cubecl::prelude::*;

use super::Engine;
use super::copies::Reach;
use super::ring::{PIECE, Ring};
use crate::store::row_of;

/// Returns the row at `place`, or the row at place 0 if `place` is past the last, where nothing is stored.
#[cube]
pub(crate) fn row_at(order: &[u32], place: usize, rows: usize, #[comptime] ordered: bool) -> usize {
    // Clamps because the kernel is unchecked: the row exists whatever the order buffer holds.
    min(row_of(order, select(place < rows, place, 0), ordered), rows - 1)
}

/// Reads eight elements starting at `from`, a multiple of eight.
#[cube]
fn piece_at<F: Float>(tile: &[F], from: usize, #[comptime] engine: Engine) -> Vector<F, Const<8>> {
    match comptime!(engine) {
        Engine::Ptx => tile.as_vectorized().with_vector_size::<Const<8>>()[from / PIECE],
        // Not every runtime can read shared memory as a type other than the declared one.
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

/// Writes two adjacent elements at `to`, an even offset.
#[cube]
pub(crate) fn put_pair<F: Float>(
    tile: &mut [F],
    to: usize,
    pair: Vector<F, Const<2>>,
    #[comptime] engine: Engine,
) {
    match comptime!(engine) {
        Engine::Ptx => {
            tile.as_vectorized_mut().with_vector_size_mut::<Const<2>>()[to / 2] = pair;
        }
        // Not every runtime can write shared memory as a type other than the declared one.
        Engine::Plain => {
            tile[to] = pair.extract(0usize);
            tile[to + 1] = pair.extract(1usize);
        }
    }
}

/// Stores the output tile `[vector][Ring::pitch(tokens)]`, which all threads have written, to `y [rows][pitch]`, with
/// each row at its place.
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
    // All rows are looked up first, so that the loads overlap each other, and the barrier.
    let mut stored = Array::<usize>::new(comptime!(ring.pieces_stored()));
    #[unroll]
    for i in 0..comptime!(ring.pieces_stored()) {
        let piece = UNIT_POS as usize + comptime!(i * ring.threads);
        let line = piece / comptime!(ring.tokens / PIECE);
        stored[i] = row_at(order, group * comptime!(ring.vector) + line, rows, ordered);
    }
    sync_cube();
    #[unroll]
    for i in 0..comptime!(ring.pieces_stored()) {
        let piece = UNIT_POS as usize + comptime!(i * ring.threads);
        let line = piece / comptime!(ring.tokens / PIECE);
        let at = piece % comptime!(ring.tokens / PIECE) * PIECE;
        let place = group * comptime!(ring.vector) + line;
        if place < rows && reach.first + at < reach.pitch {
            let from = line * comptime!(Ring::pitch(ring.tokens)) + at;
            let to = stored[i] * reach.pitch + reach.first + at;
            y[to / PIECE] = piece_at::<F>(tile, from, engine);
        }
    }
}
