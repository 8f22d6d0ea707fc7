//! Kernel for `wgmma`, on Hopper: four warps together multiply 64 rows directly from the ring's shared memory,
//! whose rows use the 128-byte swizzle. Both operands are MN-major there: a stage is stored as it is gathered, and
//! the instruction transposes it.

use cubecl::prelude::*;

use super::Engine;
use super::copies::{fill, reach, read_ids};
use super::instructions::{Element, wait};
use super::output::{row_at, store_rows};
use super::ring::{Ring, next, slice_of};
use super::warpgroup::{held, lanes, multiply};
use super::wide_tile::{ROWS, WARPGROUP, WideTile};
use crate::store::{Store, finish};

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
pub(super) fn wgmma_kernel<F: Float>(
    x: &[F],
    values: &[F],
    columns: &[u32],
    offsets: &[u32],
    order: &[u32],
    bias: &[F],
    y: &mut [Vector<F, Const<8>>],
    pitch: usize,
    rows: usize,
    cols: usize,
    #[comptime] tile: WideTile,
    #[comptime] ordered: bool,
    #[comptime] store: Store,
    #[comptime] element: Element,
    #[comptime] engine: Engine,
    #[define(F)] _dtype: ElemType,
) {
    let ring = comptime!(tile.ring());
    let mut memory = Shared::<[F]>::new_aligned_slice(comptime!(tile.ring().memory()), 1024usize);

    // Origin of this warpgroup's part of the tile.
    let warpgroup = UNIT_POS as usize / WARPGROUP;
    let top = warpgroup / comptime!(tile.across) * ROWS;
    let left = warpgroup % comptime!(tile.across) * comptime!(tile.width());
    // Half of the warpgroups multiply while the others issue the copies, and vice versa.
    let multiplies_first = warpgroup % 2 == 1;
    let group = CUBE_POS_X as usize;
    let (begin, end) = slice_of(offsets, group, comptime!(tile.depth));
    let reach = reach::<F>(&memory, end, pitch, cols, ring, engine);

    let size!(N) = comptime!(lanes(tile, engine));
    let mut sums = Array::<Vector<f32, N>>::new(comptime!(tile.sums() / lanes(tile, engine)));
    #[unroll]
    for i in 0..comptime!(tile.sums() / lanes(tile, engine)) {
        sums[i] = Vector::new(0.0);
    }

    // Offsets of this warpgroup's operands in the first slot.
    let first_a = comptime!(ring.values_at()) + top * comptime!(tile.depth);
    let first_b = left * comptime!(tile.depth);
    let mut ids = Array::<u32>::new(comptime!(tile.ring().ids()));
    let mut from = begin;
    read_ids(&mut ids, columns, from, &reach, ring);
    for slot in 0..comptime!(tile.stages - 1) {
        fill::<F>(x, values, &ids, &mut memory, slot, from, &reach, ring, engine);
        from += comptime!(tile.depth);
        read_ids(&mut ids, columns, from, &reach, ring);
    }

    // The ids read before a stage is multiplied are those of the next copies.
    let lead = select(multiplies_first, 0, comptime!(tile.depth));
    let steps = (end - begin).div_ceil(comptime!(tile.depth));
    let mut slot = 0usize;
    let mut ahead = comptime!(tile.stages - 1).runtime();
    for _ in 0..steps {
        wait(comptime!(tile.stages - 2), engine);
        if comptime!(engine == Engine::Ptx) {
            // Copies write through the generic proxy, but `wgmma` reads through the asynchronous proxy.
            gpu_asm!("fence.proxy.async.shared::cta;");
        }
        // After this barrier, every thread's copies of this stage have landed, and every warp is done with the
        // previous stage, whose slot is filled next.
        sync_cube();
        if !multiplies_first {
            fill::<F>(x, values, &ids, &mut memory, ahead, from, &reach, ring, engine);
        }
        // The ids are loaded during the multiplication, so that the next fence has no loads to wait for.
        read_ids(&mut ids, columns, from + lead, &reach, ring);
        let a = first_a + slot * comptime!(tile.depth * tile.vector);
        let b = first_b + slot * comptime!(tile.depth * tile.tokens);
        multiply::<F, N>(&mut sums, &memory, reach.base, a, b, tile, element, engine);
        if multiplies_first {
            fill::<F>(x, values, &ids, &mut memory, ahead, from, &reach, ring, engine);
        }
        from += comptime!(tile.depth);
        ahead = slot;
        slot = next(slot, ring);
    }

    // Reuses the rings' memory for the output tile, from which whole rows are stored.
    wait(0usize, engine);
    sync_cube();
    let (line, column) = held();
    #[unroll]
    for upper in 0..2usize {
        let at = top + line + comptime!(upper * 8);
        let row = row_at(order, group * comptime!(tile.vector) + at, rows, ordered);
        #[unroll]
        for j in 0..comptime!(tile.sums() / 4) {
            #[unroll]
            for i in 0..2usize {
                let sum = comptime!(j * 4 + upper * 2 + i);
                let lanes = comptime!(lanes(tile, engine));
                let value = sums[comptime!(sum / lanes)].extract(comptime!(sum % lanes));
                let to =
                    at * comptime!(Ring::pitch(tile.tokens)) + left + column + comptime!(j * 8 + i);
                memory[to] = finish::<F>(value, bias, row, store);
            }
        }
    }
    sync_cube();
    store_rows::<F>(&memory, order, y, group, rows, &reach, ordered, ring, engine);
}
