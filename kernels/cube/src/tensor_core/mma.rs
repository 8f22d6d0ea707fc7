//! Kernel for `mma.sync`, on sm_80 and later: every warp multiplies its part of the tile from the ring.

use cubecl::prelude::*;

use super::Engine;
use super::copies::{fill, reach};
use super::ids::{advance, start};
use super::instructions::{Element, Operand, Pair, WARP, load_fragment, mma, scratch_pairs, wait};
use super::output::{put_pair, row_at, store_rows};
use super::ring::{Placement, Ring, next, slice_of};
use crate::store::{Store, bias_of, finish_all};

/// Division of a cube's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows per group: a multiple of `16 · warps_m`.
    pub vector: usize,
    /// Tokens per cube: a multiple of `16 · warps_n`.
    pub tokens: usize,
    /// Kept columns per stage: a multiple of 16.
    pub depth: usize,
    /// Number of stages in the ring.
    pub stages: usize,
    /// Number of warps along the rows.
    pub warps_m: usize,
    /// Number of warps along the tokens.
    pub warps_n: usize,
}

impl Tile {
    /// Returns a narrow tile for groups of `vector` rows and few tokens, where most of the work is reading
    /// weights: many such tiles share a multiprocessor. Returns `None` if no kernel fits.
    pub fn narrow(vector: usize) -> Option<Self> {
        let warps_m = match vector {
            32 | 64 | 128 => vector / 16,
            _ => return None,
        };
        Some(Self { vector, tokens: 16, depth: 64, stages: 4, warps_m, warps_n: 1 })
    }

    /// Returns the tile for groups of `vector` rows and many tokens, or `None` if no kernel fits.
    pub fn of(vector: usize) -> Option<Self> {
        let (warps_m, warps_n) = match vector {
            32 | 64 => (1, 8),
            128 => (2, 4),
            _ => return None,
        };
        Some(Self { vector, tokens: 256, depth: 32, stages: 4, warps_m, warps_n })
    }

    pub(crate) fn check(&self) {
        assert!(self.vector.is_multiple_of(16 * self.warps_m), "{self:?}: rows of a warp");
        assert!(self.tokens.is_multiple_of(16 * self.warps_n), "{self:?}: tokens of a warp");
        self.ring().check();
    }

    pub(crate) fn ring(&self) -> Ring {
        let Self { vector, tokens, depth, stages, warps_m, warps_n } = *self;
        let threads = warps_m * warps_n * WARP;
        Ring { vector, tokens, depth, stages, threads, placement: Placement::Padded }
    }

    /// Returns the number of 16-row tiles per warp.
    fn rows(&self) -> usize {
        self.vector / self.warps_m / 16
    }

    /// Returns the number of 8-token tiles per warp.
    fn columns(&self) -> usize {
        self.tokens / self.warps_n / 8
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
pub(super) fn mma_kernel<F: Float>(
    x: &[F],
    values: &[F],
    columns: &[u32],
    offsets: &[u32],
    order: &[u32],
    bias: &[F],
    y: &mut [Vector<F, Const<8>>],
    sums_of_slices: &mut [f32],
    tokens: usize,
    pitch: usize,
    rows: usize,
    cols: usize,
    #[comptime] tile: Tile,
    #[comptime] ordered: bool,
    #[comptime] sliced: bool,
    #[comptime] store: Store,
    #[comptime] element: Element,
    #[comptime] engine: Engine,
    #[define(F)] _dtype: ElemType,
) {
    let ring = comptime!(tile.ring());
    let pitch_x = comptime!(Ring::pitch(tile.tokens));
    let pitch_w = comptime!(Ring::pitch(tile.vector));
    let mut memory = Shared::<[F]>::new_aligned_slice(comptime!(tile.ring().memory()), 16usize);
    let mut scratch = Shared::<[Pair<F>]>::new_slice(comptime!(scratch_pairs(
        engine,
        tile.warps_m * tile.warps_n
    )));

    let (lane, warp) = (UNIT_POS as usize % WARP, UNIT_POS as usize / WARP);
    // Origin of this warp's part of the tile.
    let top = warp / comptime!(tile.warps_n) * comptime!(tile.rows() * 16);
    let left = warp % comptime!(tile.warps_n) * comptime!(tile.columns() * 8);
    let group = CUBE_POS_X as usize;
    let (begin, end) = slice_of(offsets, group, comptime!(tile.depth));
    let reach = reach::<F>(&memory, CUBE_POS_Y as usize, end, pitch, cols, ring, engine);
    let base = reach.base;

    let mut sums = Array::<Vector<f32, Const<4>>>::new(comptime!(tile.rows() * tile.columns()));
    #[unroll]
    for i in 0..comptime!(tile.rows() * tile.columns()) {
        sums[i] = Vector::new(0.0);
    }

    let mut ids = Shared::<[u32]>::new_slice(comptime!(2 * ring.ids_per_half()));
    let mut held = Array::<u32>::new(comptime!(ring.held()));
    start(&mut ids, &mut held, columns, begin, &reach, ring);
    sync_cube();
    for slot in 0..comptime!(tile.stages - 1) {
        let at = slot * comptime!(tile.depth);
        fill::<F>(x, values, &ids, at, &mut memory, slot, begin + at, &reach, ring, engine);
    }

    let steps = (end - begin).div_ceil(comptime!(tile.depth));
    let mut slot = 0usize;
    let mut ahead = comptime!(tile.stages - 1).runtime();
    let mut from = begin;
    for _ in 0..steps {
        wait(comptime!(tile.stages - 2), engine);
        // After this barrier, every thread's copies of this stage have landed, and every warp is done with the
        // previous stage, whose slot is filled next.
        sync_cube();
        let at = advance(&mut ids, &mut held, columns, begin, from, slot, &reach, ring);
        let next_from = from + comptime!((tile.stages - 1) * tile.depth);
        fill::<F>(x, values, &ids, at, &mut memory, ahead, next_from, &reach, ring, engine);
        from += comptime!(tile.depth);

        let from_row = slot * comptime!(tile.depth);
        #[unroll]
        for k in 0..comptime!(tile.depth / 16) {
            let row = from_row + comptime!(k * 16);
            let mut a = Array::<Pair<F>>::new(comptime!(tile.rows() * 4));
            #[unroll]
            for i in 0..comptime!(tile.rows()) {
                let at = comptime!(ring.values_at()) + row * pitch_w + top + comptime!(i * 16);
                let to = comptime!(i * 4);
                load_fragment::<F>(&memory, base, at, &mut a, to, pitch_w, Operand::A, engine);
            }
            #[unroll]
            for j in 0..comptime!(tile.columns() / 2) {
                let at = row * pitch_x + left + comptime!(j * 16);
                let mut b = Array::<Pair<F>>::new(4usize);
                load_fragment::<F>(&memory, base, at, &mut b, 0usize, pitch_x, Operand::B, engine);
                #[unroll]
                for i in 0..comptime!(tile.rows()) {
                    #[unroll]
                    for half in 0..2usize {
                        let at = comptime!(i * tile.columns() + j * 2 + half);
                        let (a_at, b_at) = comptime!((i * 4, half * 2));
                        sums[at] =
                            mma::<F>(&a, a_at, &b, b_at, sums[at], &mut scratch, element, engine);
                    }
                }
            }
        }
        ahead = slot;
        slot = next(slot, ring);
    }

    // No copy may outlive its cube.
    wait(0usize, engine);
    let (line, pair) = (lane / 4, lane % 4);
    if comptime!(sliced) {
        let places = CUBE_COUNT_X as usize * comptime!(tile.vector);
        let slice = CUBE_POS_Z as usize * tokens;
        #[unroll]
        for i in 0..comptime!(tile.rows() * tile.columns()) {
            #[unroll]
            for part in 0..4usize {
                let (i, j) = comptime!((i / tile.columns(), i % tile.columns()));
                let at = top + line + comptime!(i * 16 + part / 2 * 8);
                let place = group * comptime!(tile.vector) + at;
                let token = reach.first + left + pair * 2 + comptime!(j * 8 + part % 2);
                if token < tokens {
                    sums_of_slices[(slice + token) * places + place] =
                        sums[comptime!(i * tile.columns() + j)].extract(part);
                }
            }
        }
    } else {
        // Reuses the rings' memory for the output tile, from which whole rows are stored.
        sync_cube();
        #[unroll]
        for i in 0..comptime!(tile.rows()) {
            #[unroll]
            for upper in 0..2usize {
                let at = top + line + comptime!(i * 16 + upper * 8);
                let row = row_at(order, group * comptime!(tile.vector) + at, rows, ordered);
                let bias = bias_of::<F>(bias, row, store);
                #[unroll]
                for j in 0..comptime!(tile.columns()) {
                    let sum = sums[comptime!(i * tile.columns() + j)];
                    let mut two = Vector::<f32, Const<2>>::empty();
                    two.insert(0usize, sum.extract(comptime!(upper * 2)));
                    two.insert(1usize, sum.extract(comptime!(upper * 2 + 1)));
                    let two = finish_all::<F, Const<2>>(two, bias, store);
                    let to = at * pitch_x + left + pair * 2 + comptime!(j * 8);
                    put_pair::<F>(&mut memory, to, two, engine);
                }
            }
        }
        store_rows::<F>(&memory, order, y, group, rows, &reach, ordered, ring, engine);
    }
}
