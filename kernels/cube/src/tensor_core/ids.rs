//! Column ids of the stages to be copied, double-buffered in shared memory. Each half holds the ids of as many stages
//! as the ring has; the ids after them are loaded into registers a ring ahead, because loading them stage by stage
//! would stall every stage.

use cubecl::prelude::*;

use super::copies::Reach;
use super::ring::Ring;

/// Placeholder id for no column: past every column.
const NONE: u32 = u32::MAX;

/// Loads this thread's part of the ids of a half, starting at kept column `from`.
#[cube]
fn load(
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
        if at < comptime!(ring.ids_per_half()) && from + at < reach.end {
            id = columns[from + at];
        }
        held[i] = id;
    }
}

/// Writes this thread's ids to one half; other threads may read them after the next barrier.
#[cube]
fn publish(ids: &mut [u32], held: &mut Array<u32>, half: usize, #[comptime] ring: Ring) {
    #[unroll]
    for i in 0..comptime!(ring.held()) {
        let at = UNIT_POS as usize + comptime!(i * ring.threads);
        if at < comptime!(ring.ids_per_half()) {
            ids[half * comptime!(ring.ids_per_half()) + at] = held[i];
        }
    }
}

/// Loads the ids of both halves: the first half is available after a barrier, the second after the barrier that
/// follows the first [`advance`].
#[cube]
pub(crate) fn start(
    ids: &mut [u32],
    held: &mut Array<u32>,
    columns: &[u32],
    begin: usize,
    reach: &Reach,
    #[comptime] ring: Ring,
) {
    load(held, columns, begin, reach, ring);
    publish(ids, held, 0usize, ring);
    load(held, columns, begin + comptime!(ring.ids_per_half()), reach, ring);
}

/// Advances to the stage in `slot`, which starts at kept column `from`; call it once per stage, after its barrier. When
/// `slot` wraps to 0, publishes the loaded ids and loads the next. Returns the offset in `ids` of the stage to copy
/// next, one less than a ring ahead.
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
    let half = (from - begin) / comptime!(ring.ids_per_half()) % 2;
    let mut at = (1 - half) * comptime!(ring.ids_per_half()) + slot * comptime!(ring.depth);
    if slot == 0 {
        publish(ids, held, 1 - half, ring);
        load(held, columns, from + comptime!(2 * ring.ids_per_half()), reach, ring);
        at = (half + 1) * comptime!(ring.ids_per_half());
    }
    at - comptime!(ring.depth)
}
