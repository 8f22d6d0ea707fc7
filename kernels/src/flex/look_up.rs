//! The balanced layout where a block fits a register table: 16 rows at a time, each lane looks up its
//! own input of the block. Tokens need no transposition, on the way in or out.

use super::parallel::{Shared, for_each_part, part, team, with_scratch};
use super::simd::{Isa, Simd, Work, dispatch};
use super::smooth::gelu;
use super::{Store, Value, Weight};
use crate::layout::TILE_ROWS;
use crate::{Activation, Layout};

/// Tokens that share one reading of the weights: their tables fill 16 registers, their sums 8.
const TOKENS: usize = 8;

/// Columns per pass, so that eight tokens' inputs stay in the first-level cache: 32 KB.
const PASS_COLUMNS: usize = 1024;

/// Weights of a pass over a chunk of rows, so that they stay in the second-level cache while all
/// tokens use them.
const CHUNK_BYTES: usize = 256 << 10;

/// Whether this CPU can look up blocks of this size.
pub(crate) fn fits(block: usize, isa: Isa) -> bool {
    struct Has;
    impl Work for Has {
        type Output = bool;
        unsafe fn run<S: Simd>(self) -> bool {
            S::LOOKS_UP
        }
    }
    matches!(block, 2 | 4 | 8 | 16 | 32) && dispatch(isa, Has)
}

pub(crate) fn run<V: Value>(
    isa: Isa,
    weight: &Weight<'_, V>,
    x: &[f32],
    store: Store<'_>,
    y: Shared,
) {
    let Layout::Balanced { block, kept } = weight.layout else {
        unreachable!("chosen for the balanced layout only")
    };
    let n = x.len() / weight.cols;
    let tiles = weight.rows.div_ceil(TILE_ROWS);
    let team = team(weight.work() * n, (size_of::<V>() + 1) * weight.work());
    let parts = if team.threads > 1 { (team.threads * 4).min(tiles) } else { 1 };
    let multiply = |x: &[f32], stride| {
        for_each_part(parts, team, |at| {
            let (tiles, layout) = (part(tiles, at, parts), (block, kept));
            dispatch(isa, LookUp { weight, layout, tiles, x, stride, n, store, y });
        });
    };
    // The table of every block reads 32 floats: past the input where that is not in whole blocks.
    if block == 32 && weight.cols.is_multiple_of(32) {
        return multiply(x, weight.cols);
    }
    let padded = weight.tile_rows();
    with_scratch(n * padded, |scratch| {
        for (copy, x) in scratch.chunks_exact_mut(padded).zip(x.chunks_exact(weight.cols)) {
            copy[..weight.cols].copy_from_slice(x);
            copy[weight.cols..].fill(0.0);
        }
        multiply(scratch, padded);
    });
}

struct LookUp<'a, V> {
    weight: &'a Weight<'a, V>,
    layout: (usize, usize),
    tiles: std::ops::Range<usize>,
    x: &'a [f32],
    /// Floats from one token's input to the next.
    stride: usize,
    n: usize,
    store: Store<'a>,
    y: Shared,
}

impl<V: Value> Work for LookUp<'_, V> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let (block, kept) = self.layout;
        let blocks = self.weight.cols.div_ceil(block);
        let pass = (PASS_COLUMNS / block).max(1);
        let tile_bytes = (size_of::<V>() + 1) * TILE_ROWS * pass * kept.max(1);
        let chunk = (CHUNK_BYTES / tile_bytes).clamp(1, self.tiles.len().max(1));
        for first in self.tiles.clone().step_by(chunk) {
            let tiles = first..(first + chunk).min(self.tiles.end);
            for from in (0..blocks).step_by(pass) {
                let range = from..(from + pass).min(blocks);
                let mut token = 0;
                while token < self.n {
                    let (tiles, range) = (tiles.clone(), range.clone());
                    // SAFETY: passed on. Few tokens take several slots at a time, each with sums of
                    // its own, to hide the latency of a multiply-add.
                    token += unsafe {
                        match self.n - token {
                            1 => self.tokens::<S, 1, 4>(token, tiles, range),
                            2 => self.tokens::<S, 2, 4>(token, tiles, range),
                            3 => self.tokens::<S, 3, 2>(token, tiles, range),
                            4..TOKENS => self.tokens::<S, 4, 2>(token, tiles, range),
                            _ => self.tokens::<S, TOKENS, 1>(token, tiles, range),
                        }
                    };
                }
            }
        }
    }
}

impl<V: Value> LookUp<'_, V> {
    /// Adds the blocks of `range` to the outputs of `T` tokens; answers with `T`.
    #[inline(always)]
    unsafe fn tokens<S: Simd, const T: usize, const CHAINS: usize>(
        &self,
        token: usize,
        tiles: std::ops::Range<usize>,
        range: std::ops::Range<usize>,
    ) -> usize {
        let (weight, (block, kept)) = (self.weight, self.layout);
        let (per_row, blocks) = (weight.kept_per_row(), weight.cols.div_ceil(block));
        let (first, last) = (range.start == 0, range.end == blocks);
        for tile in tiles {
            let row = tile * TILE_ROWS;
            let rows = TILE_ROWS.min(weight.rows - row);
            // SAFETY: every slot holds 16 values and 16 bytes; 32 floats from any block's start lie
            // inside the input or its padded copy; a look-up stays in its table. Tiles own their rows.
            unsafe {
                let mut sums = [[S::zero(); T]; CHAINS];
                for t in 0..T {
                    let y = self.y.get().add((token + t) * weight.rows + row);
                    sums[0][t] =
                        if first { self.bias::<S>(row, rows) } else { S::load_first(y, rows) };
                }
                for b in range.clone() {
                    let mut tables = [(S::zero(), S::zero()); T];
                    for (t, table) in tables.iter_mut().enumerate() {
                        let x = self.x.as_ptr().add((token + t) * self.stride + b * block);
                        *table = (S::load(x), S::load(x.add(S::LANES)));
                    }
                    let end = if b + 1 == blocks { per_row } else { (b + 1) * kept };
                    let mut slot = b * kept;
                    while slot + CHAINS <= end {
                        for (chain, sums) in sums.iter_mut().enumerate() {
                            self.slot::<S, T>(tile * per_row + slot + chain, &tables, sums);
                        }
                        slot += CHAINS;
                    }
                    for slot in slot..end {
                        self.slot::<S, T>(tile * per_row + slot, &tables, &mut sums[0]);
                    }
                }
                for t in 0..T {
                    let mut sum = sums[0][t];
                    for chain in &sums[1..] {
                        sum = S::add(sum, chain[t]);
                    }
                    let y = self.y.get().add((token + t) * weight.rows + row);
                    S::store_first(y, self.store.activate::<S>(sum, last), rows);
                }
                if last && self.store.activation == Activation::Gelu {
                    for t in 0..T {
                        let y = self.y.get().add((token + t) * weight.rows + row);
                        S::store_first(y, gelu::<S>(S::load_first(y, rows)), rows);
                    }
                }
            }
        }
        T
    }

    /// Adds one slot of 16 rows to the sums of `T` tokens.
    #[inline(always)]
    unsafe fn slot<S: Simd, const T: usize>(
        &self,
        slot: usize,
        tables: &[(S::F, S::F); T],
        sums: &mut [S::F; T],
    ) {
        // SAFETY: the caller checked the slot.
        unsafe {
            let w = V::load::<S>(self.weight.values.as_ptr().add(slot * TILE_ROWS));
            let index = S::index(self.weight.in_block.as_ptr().add(slot * TILE_ROWS));
            for t in 0..T {
                sums[t] = S::fma(w, S::look_up(tables[t].0, tables[t].1, index), sums[t]);
            }
        }
    }

    #[inline(always)]
    unsafe fn bias<S: Simd>(&self, row: usize, rows: usize) -> S::F {
        // SAFETY: passed on.
        unsafe {
            self.store.bias.map_or(S::zero(), |bias| S::load_first(bias.as_ptr().add(row), rows))
        }
    }
}
