//! Look-up kernel of the balanced layout for few tokens: it processes the rows of a tile at a time, and each lane looks
//! up its own input of the block in a [`Table`]. Neither inputs nor outputs are transposed.

use super::pad;
use super::table::{self, InMemory, InRegisters, Table};
use crate::layout::TILE_ROWS;
use crate::parallel::{Shared, for_each_range, team, with_scratch};
use crate::polynomials::gelu;
use crate::simd::{Isa, Simd, Work, dispatch};
use crate::{Activation, Layout};
use crate::{Store, Value, Weight};

/// Maximum number of tokens that share one pass over the weights.
const TOKENS: usize = 8;

/// Columns per pass, so that the inputs of eight tokens stay in the first-level cache: 32 KB.
const PASS_COLUMNS: usize = 1024;

/// Size in bytes of the weights of a pass over a chunk of rows, so that they stay in the second-level cache while
/// all tokens use them.
const CHUNK_BYTES: usize = 256 << 10;

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
    let table = table::size(block, isa);
    let team = team(weight.work() * n * table.work, (size_of::<V>() + 1) * weight.work());
    let (cols, padded) = (weight.cols, weight.tile_rows());
    // The last floats of a table may be past the input of its token. They are never selected but must be readable: they
    // belong to the next token or, for the last tokens, to a padded copy.
    let whole = match block == table.floats && cols.is_multiple_of(block) {
        true => n,
        false => (n + 1).saturating_sub(padded.div_ceil(cols)) / TOKENS * TOKENS,
    };
    with_scratch((n - whole) * padded, |copies| {
        pad(&x[whole * cols..], cols, copies, padded);
        let sources = [
            Source { x, stride: cols, n: whole },
            Source { x: copies, stride: padded, n: n - whole },
        ];
        for_each_range(tiles, team, |tiles| {
            let (layout, floats) = ((block, kept), table.floats);
            dispatch(isa, LookUp { weight, layout, floats, tiles, sources, store, y });
        });
    });
}

/// Inputs of consecutive tokens.
#[derive(Clone, Copy)]
struct Source<'a> {
    x: &'a [f32],
    /// Floats from one token's input to the next.
    stride: usize,
    /// Number of tokens.
    n: usize,
}

struct LookUp<'a, V> {
    weight: &'a Weight<'a, V>,
    layout: (usize, usize),
    /// Number of floats in the table of a block.
    floats: usize,
    tiles: std::ops::Range<usize>,
    /// Sources of the tokens, one after the other.
    sources: [Source<'a>; 2],
    store: Store<'a>,
    y: Shared,
}

impl<V: Value> Work for LookUp<'_, V> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self.floats / S::LANES {
                2 => self.passes::<S, InRegisters<S::F, 2>>(S::TABLE_REGISTERS / 2),
                4 => self.passes::<S, InRegisters<S::F, 4>>(S::TABLE_REGISTERS / 4),
                8 => self.passes::<S, InRegisters<S::F, 8>>(S::TABLE_REGISTERS / 8),
                _ => self.passes::<S, InMemory>(usize::MAX),
            }
        }
    }
}

impl<V: Value> LookUp<'_, V> {
    /// Multiplies up to `most` tokens at a time, with one table per token.
    #[inline(always)]
    unsafe fn passes<S: Simd, B: Table<S>>(&self, most: usize) {
        let (block, kept) = self.layout;
        let blocks = self.weight.cols.div_ceil(block);
        let pass = (PASS_COLUMNS / block).max(1);
        let tile_bytes = (size_of::<V>() + 1) * TILE_ROWS * pass * kept.max(1);
        let chunk = (CHUNK_BYTES / tile_bytes).clamp(1, self.tiles.len().max(1));
        for first in self.tiles.clone().step_by(chunk) {
            let tiles = first..(first + chunk).min(self.tiles.end);
            for from in (0..blocks).step_by(pass) {
                let range = from..(from + pass).min(blocks);
                let mut done = 0;
                for source in &self.sources {
                    let mut token = 0;
                    while token < source.n {
                        let x = &source.x[token * source.stride..];
                        let at = (x.as_ptr(), source.stride, done);
                        let (tiles, range) = (tiles.clone(), range.clone());
                        // SAFETY: guaranteed by the caller. With few tokens, several slots are processed at a time,
                        // each with its own sums, to hide the latency of a multiply-add.
                        let taken = unsafe {
                            match (source.n - token).min(most) {
                                1 => self.tokens::<S, B, 1, 4>(at, tiles, range),
                                2 => self.tokens::<S, B, 2, 4>(at, tiles, range),
                                3 => self.tokens::<S, B, 3, 2>(at, tiles, range),
                                4..TOKENS => self.tokens::<S, B, 4, 2>(at, tiles, range),
                                _ => self.tokens::<S, B, TOKENS, 1>(at, tiles, range),
                            }
                        };
                        token += taken;
                        done += taken;
                    }
                }
            }
        }
    }

    /// Adds the products with the blocks of `range`, whose inputs start at `x`, to the outputs of the `T` tokens that
    /// start at `token`. Returns `T`.
    #[inline(always)]
    unsafe fn tokens<S: Simd, B: Table<S>, const T: usize, const CHAINS: usize>(
        &self,
        (x, stride, token): (*const f32, usize, usize),
        tiles: std::ops::Range<usize>,
        range: std::ops::Range<usize>,
    ) -> usize {
        let (weight, (block, kept)) = (self.weight, self.layout);
        let (per_row, blocks) = (weight.kept_per_row(), weight.cols.div_ceil(block));
        let (first, last) = (range.start == 0, range.end == blocks);
        for tile in tiles {
            // Processes as many rows of the tile at a time as a vector has lanes.
            for lane in (0..TILE_ROWS).step_by(S::LANES) {
                let row = tile * TILE_ROWS + lane;
                if row >= weight.rows {
                    break;
                }
                let rows = S::LANES.min(weight.rows - row);
                // SAFETY: every slot holds 16 values and 16 bytes; a table that starts at any block stays inside the
                // inputs of all tokens or the padded copies. Tiles own their rows.
                unsafe {
                    let mut sums = [[S::zero(); T]; CHAINS];
                    for t in 0..T {
                        let y = self.y.get().add((token + t) * weight.rows + row);
                        sums[0][t] =
                            if first { self.bias::<S>(row, rows) } else { S::load_first(y, rows) };
                    }
                    for b in range.clone() {
                        let x = x.add(b * block);
                        let mut tables = [B::at(x); T];
                        for (t, table) in tables.iter_mut().enumerate().skip(1) {
                            *table = B::at(x.add(t * stride));
                        }
                        let end = if b + 1 == blocks { per_row } else { (b + 1) * kept };
                        let mut slot = b * kept;
                        let at = |slot| (tile * per_row + slot) * TILE_ROWS + lane;
                        while slot + CHAINS <= end {
                            for (chain, sums) in sums.iter_mut().enumerate() {
                                self.add::<S, B, T>(at(slot + chain), &tables, sums);
                            }
                            slot += CHAINS;
                        }
                        for slot in slot..end {
                            self.add::<S, B, T>(at(slot), &tables, &mut sums[0]);
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
        }
        T
    }

    /// Adds the products with the weights that start at `at`, one per lane, to the sums of `T` tokens.
    #[inline(always)]
    unsafe fn add<S: Simd, B: Table<S>, const T: usize>(
        &self,
        at: usize,
        tables: &[B; T],
        sums: &mut [S::F; T],
    ) {
        // SAFETY: the caller checked the slot.
        unsafe {
            let w = V::load::<S>(self.weight.values.as_ptr().add(at));
            let index = B::index(self.weight.in_block.as_ptr().add(at));
            for t in 0..T {
                sums[t] = S::fma(w, tables[t].find(index), sums[t]);
            }
        }
    }

    #[inline(always)]
    unsafe fn bias<S: Simd>(&self, row: usize, rows: usize) -> S::F {
        // SAFETY: guaranteed by the caller.
        unsafe {
            self.store.bias.map_or(S::zero(), |bias| S::load_first(bias.as_ptr().add(row), rows))
        }
    }
}
