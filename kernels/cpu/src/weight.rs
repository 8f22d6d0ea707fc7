use half::{bf16, f16};

use crate::layout::TILE_ROWS;
use crate::{Layout, PackedShape};

/// Returns the number of columns that in-block bytes can address: the start of the last block plus 256.
pub fn padded(cols: usize, block: usize) -> usize {
    (cols.div_ceil(block) - 1) * block + 256
}

/// Kept values, in the type in which they are stored.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// 32-bit floats.
    F32(&'a [f32]),
    /// The upper half of 32-bit floats.
    Bf16(&'a [bf16]),
    /// 16-bit floats.
    F16(&'a [f16]),
}

/// Unchecked arrays of a packed weight.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// Number of outputs.
    pub rows: usize,
    /// Size of the reduction.
    pub cols: usize,
    /// How the values are laid out.
    pub layout: Layout,
    /// Kept values.
    pub values: Values<'a>,
    /// Column indices of the grouped and row layouts.
    pub columns: &'a [i32],
    /// In-block column indices of the balanced layout.
    pub in_block: &'a [u8],
    /// Start of each group's columns, or of each tile's slots.
    pub offsets: &'a [i32],
    /// Row at each position of the grouped and row layouts (the row order).
    pub order: &'a [i32],
}

/// Packed weight with indices that kernels may trust, created by [`Parts::check`].
#[derive(Debug, Clone, Copy)]
pub struct PackedWeight<'a>(Parts<'a>);

/// Evaluates an expression with the [`Weight`] of the type in which a [`PackedWeight`] stores its values.
macro_rules! typed {
    ($packed:expr, $weight:ident => $result:expr) => {
        match $packed.values() {
            $crate::Values::F32(values) => {
                let $weight = &$packed.weight(values);
                $result
            }
            $crate::Values::Bf16(values) => {
                let $weight = &$packed.weight(values);
                $result
            }
            $crate::Values::F16(values) => {
                let $weight = &$packed.weight(values);
                $result
            }
        }
    };
}
pub(crate) use typed;

impl<'a> Parts<'a> {
    /// Checks everything that could make a kernel read or write out of bounds.
    ///
    /// # Errors
    /// Returns a message if sizes or indices do not fit.
    pub fn check(self) -> Result<PackedWeight<'a>, String> {
        self.checked(false)
    }

    /// Checks the sizes only.
    ///
    /// # Safety
    /// [`Self::check`] must have passed for the same indices.
    ///
    /// # Errors
    /// Returns a message if sizes do not fit.
    pub unsafe fn check_sizes(self) -> Result<PackedWeight<'a>, String> {
        self.checked(true)
    }

    fn checked(self, known: bool) -> Result<PackedWeight<'a>, String> {
        let packed = PackedWeight(self);
        typed!(packed, weight => weight.check(known))?;
        Ok(packed)
    }
}

impl<'a> PackedWeight<'a> {
    pub(crate) fn values(&self) -> Values<'a> {
        self.0.values
    }

    pub(crate) fn weight<V>(&self, values: &'a [V]) -> Weight<'a, V> {
        let Parts { rows, cols, layout, columns, in_block, offsets, order, .. } = self.0;
        Weight { rows, cols, layout, values, columns, in_block, offsets, order }
    }

    /// Returns the shape that the choice of a kernel depends on.
    pub fn shape(&self) -> PackedShape {
        typed!(self, weight => weight.shape())
    }

    /// Calls `each(row, column, index of the value)` for every kept weight, without padding.
    pub fn entries(&self, each: impl FnMut(usize, usize, usize)) {
        typed!(self, weight => weight.entries(0..weight.rows, each));
    }
}

/// Packed weight with values of one type; kernels trust its indices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weight<'a, V = f32> {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) layout: Layout,
    pub(crate) values: &'a [V],
    /// Column indices of the grouped and row layouts.
    pub(crate) columns: &'a [i32],
    /// In-block column indices of the balanced layout.
    pub(crate) in_block: &'a [u8],
    pub(crate) offsets: &'a [i32],
    /// Row at each position of the grouped and row layouts (the row order).
    pub(crate) order: &'a [i32],
}

impl<V> Weight<'_, V> {
    /// Checks everything that could make a kernel read or write out of bounds. If the indices are `known` to be in
    /// range, checks only the sizes.
    ///
    /// In-block columns need no check: a byte reaches at most 255 rows past the first row of its block, and tiles are
    /// padded by as much ([`Self::tile_rows`]). A byte that points past the last column reads a zero or another token's
    /// input: an incorrectly packed weight gives wrong sums but never reads out of bounds.
    fn check(&self, known: bool) -> Result<(), String> {
        let expect = |what: &str, found: usize, expected: usize| {
            if found == expected {
                Ok(())
            } else {
                Err(format!("{what}: found {found}, expected {expected}"))
            }
        };
        // Sizes below 2^31 keep the product of any two of them, and every index stored as an `i32`, exact.
        let expect_within = |what: &str, found: usize, most: usize| match found {
            0 => Err(format!("{what}: found 0, expected at least 1")),
            _ if found > most => Err(format!("{what}: found {found}, expected at most {most}")),
            _ => Ok(()),
        };
        expect_within("rows", self.rows, i32::MAX as usize)?;
        expect_within("columns of the matrix", self.cols, i32::MAX as usize)?;
        match self.layout {
            Layout::Grouped { vector } => {
                expect_within("vector", vector, 256)?;
                let groups = self.rows.div_ceil(vector);
                // Saturates where `usize` has 32 bits.
                expect("values", self.values.len(), self.columns.len().saturating_mul(vector))?;
                expect("group offsets", self.offsets.len(), groups + 1)?;
                expect("row order", self.order.len(), self.rows)?;
                if !known {
                    self.check_offsets(self.columns.len())?;
                    self.check_columns(self.cols)?;
                    self.check_order()?;
                }
            }
            Layout::Balanced { block, kept } => {
                expect_within("block", block, 256)?;
                if kept > block {
                    return Err(format!("{kept} kept weights of a block of {block}"));
                }
                expect("values", self.values.len(), self.in_block.len())?;
                let tiles = self.rows.div_ceil(TILE_ROWS) * TILE_ROWS;
                let (full, rest) = (self.cols / block * kept, self.cols % block);
                if !self.values.len().is_multiple_of(tiles)
                    || !(full..=full + rest).contains(&self.kept_per_row())
                {
                    return Err(format!("{} values for {} rows", self.values.len(), self.rows));
                }
            }
            Layout::Rows => {
                expect("values", self.values.len(), self.columns.len())?;
                expect("tile offsets", self.offsets.len(), self.rows.div_ceil(TILE_ROWS) + 1)?;
                expect("row order", self.order.len(), self.rows)?;
                let slots = self.columns.len() / TILE_ROWS;
                expect("values of whole tiles", slots * TILE_ROWS, self.columns.len())?;
                if !known {
                    self.check_offsets(slots)?;
                    // Padding points at the column past the last.
                    self.check_columns(self.cols + 1)?;
                    self.check_order()?;
                }
            }
        }
        Ok(())
    }

    fn check_offsets(&self, end: usize) -> Result<(), String> {
        let rising = self.offsets.windows(2).all(|pair| pair[0] <= pair[1]);
        let last = self.offsets.last().copied();
        if rising && self.offsets[0] == 0 && last.map(|l| l as usize) == Some(end) {
            Ok(())
        } else {
            Err(format!("offsets do not rise from 0 to {end}"))
        }
    }

    fn check_columns(&self, end: usize) -> Result<(), String> {
        // Compared as unsigned, so that a negative index is too large as well; a single maximum vectorizes.
        let highest = self.columns.iter().fold(0, |high, &col| high.max(col as u32));
        if highest as usize >= end && !self.columns.is_empty() {
            return Err(format!("column {highest} of {}", self.cols));
        }
        Ok(())
    }

    /// Checks that the row order is a permutation: otherwise, two threads would write the same row.
    fn check_order(&self) -> Result<(), String> {
        let mut seen = vec![0_u64; self.rows.div_ceil(64)];
        for &row in self.order {
            let row = row as u32 as usize;
            if row >= self.rows || seen[row / 64] >> (row % 64) & 1 == 1 {
                return Err(format!("row order names row {row} of {} wrongly", self.rows));
            }
            seen[row / 64] |= 1 << (row % 64);
        }
        Ok(())
    }

    /// Returns the shape that the choice of a kernel depends on.
    pub(crate) fn shape(&self) -> PackedShape {
        PackedShape::new(self.rows, self.cols, self.layout, self.values.len())
    }

    /// Returns the number of kept weights per row of the balanced layout, taking the padded rows into account.
    pub(crate) fn kept_per_row(&self) -> usize {
        self.values.len() / self.padded_rows()
    }

    /// Returns the number of rows that kernels for tiles of rows write: rounded up to whole tiles of 16.
    pub fn padded_rows(&self) -> usize {
        self.rows.div_ceil(TILE_ROWS) * TILE_ROWS
    }

    /// Returns the number of features in a tile of `x`: `cols`, plus those past them to which padding may point.
    pub(crate) fn tile_rows(&self) -> usize {
        match self.layout {
            Layout::Balanced { block, .. } => padded(self.cols, block),
            Layout::Rows => self.cols + 1,
            Layout::Grouped { .. } => self.cols,
        }
    }

    /// Returns the slots of a tile of 16 rows of the row layout.
    pub(crate) fn slots(&self, tile: usize) -> std::ops::Range<usize> {
        self.offsets[tile] as usize..self.offsets[tile + 1] as usize
    }

    /// Returns the number of multiply-adds per token.
    pub(crate) fn work(&self) -> usize {
        self.values.len()
    }

    /// Calls `each(row, column, index of the value)` for the kept weights of `rows`, without padding. Where a layout has a
    /// row order, `rows` are positions in it.
    pub fn entries(&self, rows: std::ops::Range<usize>, mut each: impl FnMut(usize, usize, usize)) {
        match self.layout {
            Layout::Grouped { vector } => {
                for place in rows {
                    let (group, lane) = (place / vector, place % vector);
                    for at in self.offsets[group] as usize..self.offsets[group + 1] as usize {
                        each(
                            self.order[place] as usize,
                            self.columns[at] as usize,
                            at * vector + lane,
                        );
                    }
                }
            }
            Layout::Balanced { block, kept } => {
                let (per_row, blocks) = (self.kept_per_row(), self.cols.div_ceil(block));
                for row in rows {
                    for slot in 0..per_row {
                        // If full blocks keep no weights, all kept weights are in the shorter last block.
                        let in_block =
                            slot.checked_div(kept).map_or(blocks - 1, |b| b.min(blocks - 1));
                        let at = ((row / TILE_ROWS) * per_row + slot) * TILE_ROWS + row % TILE_ROWS;
                        let col = in_block * block + usize::from(self.in_block[at]);
                        if col < self.cols {
                            each(row, col, at);
                        }
                    }
                }
            }
            Layout::Rows => {
                for place in rows {
                    let row = self.order[place] as usize;
                    for slot in self.slots(place / TILE_ROWS) {
                        let at = slot * TILE_ROWS + place % TILE_ROWS;
                        let col = self.columns[at] as usize;
                        if col < self.cols {
                            each(row, col, at);
                        }
                    }
                }
            }
        }
    }
}
