//! A few tokens on the balanced layout: 16 rows at a time, each lane looks up its own input of the
//! block in registers.

use super::parallel::{Shared, for_each_part, part, team, with_scratch};
use super::simd::{Isa, Simd, Work, dispatch};
use super::{Store, Weight};
use crate::Layout;
use crate::layout::TILE_ROWS;

/// Tokens up to which looking up beats transposing the input.
const TOKENS: usize = 4;

/// Whether this CPU can look up blocks of this size.
pub(crate) fn fits(block: usize, n: usize, isa: Isa) -> bool {
    struct Has;
    impl Work for Has {
        type Output = bool;
        unsafe fn run<S: Simd>(self) -> bool {
            // SAFETY: 32 floats and 16 bytes are there to read.
            unsafe { S::look_up::<32>([0.0; 32].as_ptr(), [0; 16].as_ptr()).is_some() }
        }
    }
    n <= TOKENS && matches!(block, 2 | 4 | 8 | 16 | 32) && dispatch(isa, Has)
}

pub(crate) fn run(isa: Isa, weight: &Weight<'_>, x: &[f32], store: Store<'_>, y: Shared) {
    let Layout::Balanced { block, kept } = weight.layout else {
        unreachable!("chosen for the balanced layout only")
    };
    let n = x.len() / weight.cols;
    let tiles = weight.rows.div_ceil(TILE_ROWS);
    let team = team(weight.work() * n, 5 * weight.work());
    let parts = if team.threads > 1 { team.threads * 4 } else { 1 };
    // The last block's table may reach past the input.
    let padded = weight.tile_rows();
    with_scratch(n * padded, |scratch| {
        for (copy, x) in scratch.chunks_exact_mut(padded).zip(x.chunks_exact(weight.cols)) {
            copy[..weight.cols].copy_from_slice(x);
            copy[weight.cols..].fill(0.0);
        }
        let x = &*scratch;
        for_each_part(parts, team, |at| {
            let tiles = part(tiles, at, parts);
            let layout = (block, kept);
            dispatch(isa, LookUp { weight, layout, tiles, x, padded, n, store, y });
        });
    });
}

struct LookUp<'a> {
    weight: &'a Weight<'a>,
    layout: (usize, usize),
    tiles: std::ops::Range<usize>,
    x: &'a [f32],
    padded: usize,
    n: usize,
    store: Store<'a>,
    y: Shared,
}

impl Work for LookUp<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: passed on.
        unsafe {
            match (self.n, self.layout.0) {
                (1, 32) => self.tokens::<S, 1, 32>(),
                (2, 32) => self.tokens::<S, 2, 32>(),
                (3, 32) => self.tokens::<S, 3, 32>(),
                (_, 32) => self.tokens::<S, 4, 32>(),
                (1, _) => self.tokens::<S, 1, 16>(),
                (2, _) => self.tokens::<S, 2, 16>(),
                (3, _) => self.tokens::<S, 3, 16>(),
                _ => self.tokens::<S, 4, 16>(),
            }
        }
    }
}

impl LookUp<'_> {
    #[inline(always)]
    unsafe fn tokens<S: Simd, const T: usize, const TABLE: usize>(&self) {
        let (weight, (block, kept)) = (self.weight, self.layout);
        let (per_row, blocks) = (weight.kept_per_row(), weight.cols.div_ceil(block));
        for tile in self.tiles.clone() {
            // SAFETY: every slot holds 16 values and 16 bytes; a table of 32 floats from any block's
            // start lies inside the padded input; look-ups wrap inside the table.
            unsafe {
                let mut sums = [[S::zero(); 2]; T];
                let start = tile * per_row * TILE_ROWS;
                let (values, index) =
                    (weight.values.as_ptr().add(start), weight.in_block.as_ptr().add(start));
                for b in 0..blocks {
                    let x = self.x.as_ptr().add(b * block);
                    let last = if b + 1 == blocks { per_row } else { (b + 1) * kept };
                    for slot in b * kept..last {
                        let w = S::load(values.add(slot * TILE_ROWS));
                        let index = index.add(slot * TILE_ROWS);
                        for (token, sums) in sums.iter_mut().enumerate() {
                            let table = x.add(token * self.padded);
                            let Some(x) = S::look_up::<TABLE>(table, index) else {
                                unreachable!("chosen where the set can look up")
                            };
                            sums[slot % 2] = S::fma(w, x, sums[slot % 2]);
                        }
                    }
                }
                for (token, sums) in sums.iter().enumerate() {
                    let mut buffer = [0.0_f32; TILE_ROWS];
                    S::store(buffer.as_mut_ptr(), S::add(sums[0], sums[1]));
                    let first = tile * TILE_ROWS;
                    let y = self.y.get().add(token * weight.rows + first);
                    for lane in 0..TILE_ROWS.min(weight.rows - first) {
                        let sum = buffer[lane] + self.store.bias(first + lane);
                        *y.add(lane) = self.store.activate_one(sum);
                    }
                }
            }
        }
    }
}
