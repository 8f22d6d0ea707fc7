//! Column ids of the stages to be copied, in two halves of shared memory. A half holds the ids of as many stages as the ring
//! has: while the copies of one half's stages are started, the ids after the other's are on their way from memory, for
//! as many stages. Read for each stage alone, they would arrive later than its turn.

use cubecl::prelude::*;

use super::copies::Reach;
use super::ring::Ring;

/// Placeholder id for no column: past every column.
const NONE: u32 = u32::MAX;

/// Reads this thread's part of the ids of a half, starting at kept column `from`.
#[cube]
fn read(
    held: &mut Array<u32>,
    columns: &[u32],
    from: usize,
    reach: &Reach,
    #[comptime] ring: Ring,
) {
    #[unroll]
    for i in 0..comptime!(ring.held()) {
        let at = UNIT_POS as usize + comptime!(i * ring.threads);
        let mut id = NONE.runtime();
        if at < comptime!(ring.half()) && from + at < reach.end {
            id = columns[from + at];
        }
        held[i] = id;
    }
}

/// Keeps what this thread has read in a half of `ids`, for all threads after the next barrier.
#[cube]
fn keep(ids: &mut [u32], held: &mut Array<u32>, half: usize, #[comptime] ring: Ring) {
    #[unroll]
    for i in 0..comptime!(ring.held()) {
        let at = UNIT_POS as usize + comptime!(i * ring.threads);
        if at < comptime!(ring.half()) {
            ids[half * comptime!(ring.half()) + at] = held[i];
        }
    }
}

/// Reads the ids of both halves: the first are there after a barrier, the second after the first call of [`advance`].
#[cube]
pub(crate) fn start(
    ids: &mut [u32],
    held: &mut Array<u32>,
    columns: &[u32],
    begin: usize,
    reach: &Reach,
    #[comptime] ring: Ring,
) {
    read(held, columns, begin, reach, ring);
    keep(ids, held, 0usize, ring);
    read(held, columns, begin + comptime!(ring.half()), reach, ring);
}

/// Called once for each stage that is multiplied, from `slot`, after its barrier: keeps the ids that have arrived when one half's
/// stages are through, and reads on. `from` is the first kept column of the stage. Returns where the ids of the stage
/// to be copied, into the slot before, start.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(crate) fn advance(
    ids: &mut [u32],
    held: &mut Array<u32>,
    columns: &[u32],
    begin: usize,
    from: usize,
    slot: usize,
    reach: &Reach,
    #[comptime] ring: Ring,
) -> usize {
    let half = (from - begin) / comptime!(ring.half()) % 2;
    let mut at = (1 - half) * comptime!(ring.half()) + slot * comptime!(ring.depth);
    if slot == 0 {
        keep(ids, held, 1 - half, ring);
        read(held, columns, from + comptime!(2 * ring.half()), reach, ring);
        at = (half + 1) * comptime!(ring.half());
    }
    at - comptime!(ring.depth)
}
