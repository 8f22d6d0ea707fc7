//! Gradients of balanced values with vectors along 16 rows, each of which looks up its own input of a block.

use std::ops::Range;

use crate::layout::TILE_ROWS;
use crate::parallel::{Shared, for_each_range, team, with_scratch};
use crate::simd::{Isa, Simd, Work, dispatch};
use crate::tokens_major::table::{self, InRegisters, Table};
use crate::{Value, Weight};

/// Number of tokens at a time, so that the inputs of a block stay in the first-level cache while every row reads them: 128
/// tokens of a block of 32 are 16 KB.
const TOKENS: usize = 128;

/// Highest cost of a look-up that is cheaper than a load of [`super::dots`], in multiply-adds: AVX-512 finds an input in two
/// permutations; AVX2 needs eight steps for half as many rows, and took four times as long.
const DEAREST: usize = 4;

/// Returns `true` if this instruction set looks up the inputs of such blocks in registers.
pub(super) fn fits(block: usize, isa: Isa) -> bool {
    table::size(block, isa).work <= DEAREST
}

/// Adds `Σ_token dy[row] · x[column]` to the gradient of every stored value.
pub(super) fn add<V: Value>(
    isa: Isa,
    weight: &Weight<'_, V>,
    (block, kept): (usize, usize),
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
) {
    let n = x.len() / weight.cols;
    let (blocks, tiles) = (weight.cols.div_ceil(block), weight.rows.div_ceil(TILE_ROWS));
    let size = table::size(block, isa);
    let team = team(weight.work() * n * size.work, 0);
    let dw = Shared::new(dw);
    for first in (0..n).step_by(TOKENS) {
        let count = TOKENS.min(n - first);
        let tokens = first..first + count;
        let (x_floats, dy_floats) = (blocks * count * size.floats, tiles * count * TILE_ROWS);
        with_scratch(x_floats + dy_floats, |scratch| {
            let (tables, rows) = scratch.split_at_mut(x_floats);
            let copies = [
                (x, weight.cols, [block, size.floats], blocks, Shared::new(tables)),
                (dy, weight.rows, [TILE_ROWS; 2], tiles, Shared::new(rows)),
            ];
            for (from, features, widths, parts, to) in copies {
                for_each_range(parts, team, |range| {
                    split(from, features, tokens.clone(), range, widths, to);
                });
            }
            let (tables, rows) = (&*tables, &*rows);
            for_each_range(tiles, team, |tiles| {
                let layout = (block, kept);
                let width = size.floats;
                dispatch(isa, LookUp { weight, layout, width, tiles, count, tables, rows, dw });
            });
        });
    }
}

/// Copies the features `part · step..` of every token to `to[part][token]`, as `width` floats, with zeros past the
/// last feature of the part.
fn split(
    from: &[f32],
    features: usize,
    tokens: Range<usize>,
    parts: Range<usize>,
    [step, width]: [usize; 2],
    to: Shared,
) {
    for part in parts {
        let range = part * step..((part + 1) * step).min(features);
        for (at, token) in tokens.clone().enumerate() {
            let from = &from[token * features..][range.clone()];
            // SAFETY: `to` holds `width` floats for every token of every part, and threads own their parts.
            let to = unsafe {
                let first = to.get().add((part * tokens.len() + at) * width);
                std::slice::from_raw_parts_mut(first, width)
            };
            let (begin, rest) = to.split_at_mut(from.len());
            begin.copy_from_slice(from);
            rest.fill(0.0);
        }
    }
}

struct LookUp<'a, V> {
    weight: &'a Weight<'a, V>,
    layout: (usize, usize),
    /// Number of floats in the table of a block.
    width: usize,
    tiles: Range<usize>,
    /// Number of tokens.
    count: usize,
    /// Inputs of every token of every block.
    tables: &'a [f32],
    /// Gradients of the outputs of every token of every tile of 16 rows.
    rows: &'a [f32],
    /// Gradients of the values; each tile writes only its own.
    dw: Shared,
}

impl<V: Value> Work for LookUp<'_, V> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: `fits` has checked that the instruction set has tables of this size.
        unsafe {
            match self.width / S::LANES {
                2 => self.blocks::<S, InRegisters<S::F, 2>>(),
                _ => self.blocks::<S, InRegisters<S::F, 4>>(),
            }
        }
    }
}

impl<V: Value> LookUp<'_, V> {
    #[inline(always)]
    unsafe fn blocks<S: Simd, B: Table<S>>(&self) {
        let (weight, (block, kept)) = (self.weight, self.layout);
        let (per_row, blocks) = (weight.kept_per_row(), weight.cols.div_ceil(block));
        for b in 0..blocks {
            let end = if b + 1 == blocks { per_row } else { (b + 1) * kept };
            for tile in self.tiles.clone() {
                let mut slot = b * kept;
                while slot < end {
                    let at = (b, tile, (tile * per_row + slot) * TILE_ROWS);
                    // SAFETY: guaranteed by the caller. With few slots, several tokens at a time have their own sums, to
                    // hide the latency of a multiply-add.
                    slot += unsafe {
                        match end - slot {
                            1 => self.slots::<S, B, 1, 4>(at),
                            2 => self.slots::<S, B, 2, 4>(at),
                            3 => self.slots::<S, B, 3, 2>(at),
                            4 => self.slots::<S, B, 4, 2>(at),
                            5 => self.slots::<S, B, 5, 2>(at),
                            6 => self.slots::<S, B, 6, 1>(at),
                            7 => self.slots::<S, B, 7, 1>(at),
                            _ => self.slots::<S, B, 8, 1>(at),
                        }
                    };
                }
            }
        }
    }

    /// Adds to the gradients of `SLOTS` slots of a tile, whose first value is at `at`. Returns `SLOTS`.
    #[inline(always)]
    unsafe fn slots<S: Simd, B: Table<S>, const SLOTS: usize, const CHAINS: usize>(
        &self,
        (block, tile, at): (usize, usize, usize),
    ) -> usize {
        for lane in (0..TILE_ROWS).step_by(S::LANES) {
            let x = self.tables[block * self.count * self.width..].as_ptr();
            let dy = self.rows[tile * self.count * TILE_ROWS + lane..].as_ptr();
            let at = at + lane;
            // SAFETY: every slot holds 16 bytes and 16 gradients, and every token `width` inputs and 16 gradients.
            unsafe { self.lanes::<S, B, SLOTS, CHAINS>(x, dy, at) };
        }
        SLOTS
    }

    /// Adds to the gradients of as many rows of these slots as a vector has lanes.
    #[inline(always)]
    unsafe fn lanes<S: Simd, B: Table<S>, const SLOTS: usize, const CHAINS: usize>(
        &self,
        x: *const f32,
        dy: *const f32,
        at: usize,
    ) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mut index = [B::index(self.weight.in_block.as_ptr().add(at)); SLOTS];
            for (i, index) in index.iter_mut().enumerate() {
                *index = B::index(self.weight.in_block.as_ptr().add(at + i * TILE_ROWS));
            }
            let mut sums = [[S::zero(); SLOTS]; CHAINS];
            let mut token = 0;
            while token + CHAINS <= self.count {
                for (chain, sums) in sums.iter_mut().enumerate() {
                    let token = token + chain;
                    let table = B::at(x.add(token * self.width));
                    let dy = S::load(dy.add(token * TILE_ROWS));
                    for i in 0..SLOTS {
                        sums[i] = S::fma(dy, table.find(index[i]), sums[i]);
                    }
                }
                token += CHAINS;
            }
            for token in token..self.count {
                let table = B::at(x.add(token * self.width));
                let dy = S::load(dy.add(token * TILE_ROWS));
                for i in 0..SLOTS {
                    sums[0][i] = S::fma(dy, table.find(index[i]), sums[0][i]);
                }
            }
            for i in 0..SLOTS {
                let to = self.dw.get().add(at + i * TILE_ROWS);
                let mut sum = S::load(to);
                for chain in &sums {
                    sum = S::add(sum, chain[i]);
                }
                S::store(to, sum);
            }
        }
    }
}
