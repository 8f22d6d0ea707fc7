//! The balanced layout where a block fits a table in registers: 16 rows at a time, each lane looks up
//! its own input of the block. Tokens need no transposition, on the way in or out.
//!
//! One instruction looks up among 32 floats. Blocks of up to 64 and 128 take two and four of them, and
//! choose by the higher bits of the index; a block that is shorter than its table ignores the rest.

use super::parallel::{Shared, for_each_part, part, team, with_scratch};
use super::simd::{Isa, Simd, Work, dispatch};
use super::smooth::gelu;
use super::{Store, Value, Weight};
use crate::layout::TILE_ROWS;
use crate::{Activation, Layout};

/// Floats of the tables that fit registers: two, four and eight of them.
pub(crate) const TABLES: [usize; 3] = [32, 64, 128];

/// Registers for tables, divided among the tokens that share one reading of the weights.
const REGISTERS: usize = 16;

/// Columns per pass, so that eight tokens' inputs stay in the first-level cache: 32 KB.
const PASS_COLUMNS: usize = 1024;

/// Weights of a pass over a chunk of rows, so that they stay in the second-level cache while all
/// tokens use them.
const CHUNK_BYTES: usize = 256 << 10;

/// Floats of the table for a block of this length.
pub(crate) fn table(block: usize) -> usize {
    block.next_power_of_two().max(TABLES[0])
}

/// Whether this CPU can look up blocks of this length.
pub(crate) fn fits(block: usize, isa: Isa) -> bool {
    struct Has;
    impl Work for Has {
        type Output = bool;
        unsafe fn run<S: Simd>(self) -> bool {
            S::LOOKS_UP
        }
    }
    (2..=TABLES[2]).contains(&block) && dispatch(isa, Has)
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
    // Tables are read whole: past the input, where it is not made of whole ones.
    if block == table(block) && weight.cols.is_multiple_of(block) {
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
        // SAFETY: passed on.
        unsafe {
            match table(self.layout.0) {
                32 => self.passes::<S, 2>(),
                64 => self.passes::<S, 4>(),
                _ => self.passes::<S, 8>(),
            }
        }
    }
}

impl<V: Value> LookUp<'_, V> {
    /// Multiplies with tables of `R` registers.
    #[inline(always)]
    unsafe fn passes<S: Simd, const R: usize>(&self) {
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
                        match (self.n - token).min(REGISTERS / R) {
                            1 => self.tokens::<S, R, 1, 4>(token, tiles, range),
                            2 => self.tokens::<S, R, 2, 4>(token, tiles, range),
                            3 => self.tokens::<S, R, 3, 2>(token, tiles, range),
                            4..8 => self.tokens::<S, R, 4, 2>(token, tiles, range),
                            _ => self.tokens::<S, R, 8, 1>(token, tiles, range),
                        }
                    };
                }
            }
        }
    }

    /// Adds the blocks of `range` to the outputs of `T` tokens; answers with `T`.
    #[inline(always)]
    unsafe fn tokens<S: Simd, const R: usize, const T: usize, const CHAINS: usize>(
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
            // SAFETY: every slot holds 16 values and 16 bytes; a table of floats from any block's start
            // lies inside the input or its padded copy; a look-up stays in it. Tiles own their rows.
            unsafe {
                let mut sums = [[S::zero(); T]; CHAINS];
                for t in 0..T {
                    let y = self.y.get().add((token + t) * weight.rows + row);
                    sums[0][t] =
                        if first { self.bias::<S>(row, rows) } else { S::load_first(y, rows) };
                }
                for b in range.clone() {
                    let mut tables = [[S::zero(); R]; T];
                    for (t, table) in tables.iter_mut().enumerate() {
                        let x = self.x.as_ptr().add((token + t) * self.stride + b * block);
                        for (r, register) in table.iter_mut().enumerate() {
                            *register = S::load(x.add(r * S::LANES));
                        }
                    }
                    let end = if b + 1 == blocks { per_row } else { (b + 1) * kept };
                    let mut slot = b * kept;
                    while slot + CHAINS <= end {
                        for (chain, sums) in sums.iter_mut().enumerate() {
                            self.slot::<S, R, T>(tile * per_row + slot + chain, &tables, sums);
                        }
                        slot += CHAINS;
                    }
                    for slot in slot..end {
                        self.slot::<S, R, T>(tile * per_row + slot, &tables, &mut sums[0]);
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
    unsafe fn slot<S: Simd, const R: usize, const T: usize>(
        &self,
        slot: usize,
        tables: &[[S::F; R]; T],
        sums: &mut [S::F; T],
    ) {
        // SAFETY: the caller checked the slot.
        unsafe {
            let w = V::load::<S>(self.weight.values.as_ptr().add(slot * TILE_ROWS));
            let index = S::index(self.weight.in_block.as_ptr().add(slot * TILE_ROWS));
            for t in 0..T {
                sums[t] = S::fma(w, look_up::<S, R>(&tables[t], index), sums[t]);
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

/// In every lane, the float of the table that its index names.
#[inline(always)]
unsafe fn look_up<S: Simd, const R: usize>(table: &[S::F; R], index: S::Index) -> S::F {
    // SAFETY: passed on.
    unsafe {
        let mut found = [S::zero(); 4];
        for pair in 0..R / 2 {
            found[pair] = S::look_up(table[2 * pair], table[2 * pair + 1], index);
        }
        if R > 2 {
            found[0] = S::choose(found[0], found[1], index, 32);
        }
        if R > 4 {
            found[2] = S::choose(found[2], found[3], index, 32);
            found[0] = S::choose(found[0], found[2], index, 64);
        }
        found[0]
    }
}
