use half::bf16;

use super::dots::{CHUNK, QUAD_BYTES, STRETCH};
use super::quads::Quads;
use crate::layout::TILE_ROWS;

/// Row number of a lane without a row.
pub(super) const NO_ROW: u32 = u32::MAX;

/// Weight of integers in 8 bits with a scale for every row, or in 4 bits with one for every block of columns of a row, in the
/// order in which its kernels read it.
#[derive(Debug, Clone, PartialEq)]
pub struct ByteWeight {
    pub(super) rows: usize,
    pub(super) cols: usize,
    /// Row in every lane of every strip, [`NO_ROW`] where there is none.
    pub(super) lanes: Vec<[u32; TILE_ROWS]>,
    /// Scale of every lane; 1 in 4 bits, whose sums have been scaled block by block.
    pub(super) scales: Vec<[f32; TILE_ROWS]>,
    /// Number of columns of a block, whose sums are scaled together: a stretch in 8 bits, or a part of it. Whole chunks unless
    /// the weight is dense.
    pub(super) block: usize,
    /// Scale of every lane of every block of every strip; empty in 8 bits.
    pub(super) block_scales: Vec<[bf16; TILE_ROWS]>,
    /// Sum of the weights of every lane of every block of every strip.
    pub(super) sums: Vec<[i16; TILE_ROWS]>,
    pub(super) units: Vec<Unit>,
    /// Lane of every row, counted through all strips; empty if lanes are in the order of the rows.
    pub(super) places: Vec<u32>,
    /// Weights, unit by unit.
    pub(super) quads: Quads,
    pub(super) form: Form,
}

/// Inputs that rows are multiplied with.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    /// All of them: a step is four columns.
    Dense,
    /// All of them, but only kept weights are stored; there are no quads.
    Expanded(Expanded),
    /// Those of kept columns: a step is four kept columns of a chunk.
    Kept(Kept),
}

/// Nonzero weights and their places.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expanded {
    /// A bit for every weight of every quad, in the order of quads.
    pub(super) masks: Vec<u64>,
    /// First byte of every unit, and the end.
    pub(super) starts: Vec<usize>,
    /// Kept weights, followed by as many bytes as a quad has.
    pub(super) kept: Vec<u8>,
}

/// Kept columns of groups of rows. A strip holds `period` groups: lane `i` belongs to group `i % period`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kept {
    pub(super) period: usize,
    /// Column within its chunk of every weight of every group of every step, unit by unit.
    pub(super) index: Vec<u8>,
    /// First step of every chunk of every unit, and the end.
    pub(super) offsets: Vec<u32>,
    /// Inputs that every step reads.
    pub(super) windows: Vec<Window>,
}

/// Half of a chunk, or a whole one, in its stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window(u8);

impl Window {
    /// Returns the window of a chunk that begins at `from`, 0 or half a chunk, and spans both halves if it is `whole`.
    pub(super) fn new(chunk: usize, from: usize, whole: bool) -> Self {
        Self((chunk % STRETCH * CHUNK + from) as u8 | u8::from(whole))
    }

    /// Returns the first input of the window, counted from the start of its stretch.
    #[inline(always)]
    pub(super) fn from(self) -> usize {
        usize::from(self.0 & !1)
    }

    #[inline(always)]
    pub(super) fn is_whole(self) -> bool {
        self.0 & 1 == 1
    }
}

/// One or two strips whose rows read the same inputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unit {
    /// First strip.
    pub(super) strip: usize,
    /// Number of strips, one or two.
    pub(super) strips: usize,
    /// First of its quads, ordered by step and then by strip.
    pub(super) first: usize,
}

/// Returns the lane of every row; empty if every row is in the lane of its own number.
pub(super) fn places(rows: usize, lanes: &[[u32; TILE_ROWS]]) -> Vec<u32> {
    let mut places = vec![0; rows];
    for (place, &row) in lanes.as_flattened().iter().enumerate() {
        if row != NO_ROW {
            places[row as usize] = place as u32;
        }
    }
    let straight = places.iter().enumerate().all(|(row, &place)| row == place as usize);
    if straight { Vec::new() } else { places }
}

impl ByteWeight {
    /// Returns the number of outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the size of the reduction.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the number of chunks of columns.
    pub(super) fn chunks(&self) -> usize {
        self.cols.div_ceil(CHUNK)
    }

    /// Returns the number of blocks of columns.
    pub(super) fn blocks(&self) -> usize {
        self.cols.div_ceil(self.block)
    }

    /// Returns the number of multiply-adds per token, with padding.
    pub fn work(&self) -> usize {
        let quads = match &self.form {
            Form::Expanded(expanded) => expanded.masks.len(),
            Form::Dense | Form::Kept(_) => self.quads.len(),
        };
        quads * QUAD_BYTES
    }

    /// Returns the number of bytes that a token reads.
    pub fn bytes(&self) -> usize {
        let places = match &self.form {
            Form::Dense => 0,
            Form::Expanded(expanded) => 8 * expanded.masks.len() + expanded.kept.len(),
            Form::Kept(kept) => kept.index.len() + kept.windows.len() + 4 * kept.offsets.len(),
        };
        places
            + self.quads.bytes()
            + TILE_ROWS * (8 * self.lanes.len() + 2 * self.sums.len() + 2 * self.block_scales.len())
    }

    /// Returns `true` if weights are in 4 bits.
    pub fn is_int4(&self) -> bool {
        matches!(self.quads, Quads::Codes(_))
    }

    /// Returns the name of its form, as used in kernel names.
    pub fn family(&self) -> &'static str {
        match &self.form {
            Form::Dense => "dense",
            Form::Expanded(_) => "expanded",
            Form::Kept(kept) if kept.period < TILE_ROWS => "grouped",
            Form::Kept(_) => "look-up",
        }
    }

    /// Stacks the rows of weights of the same columns, so that layers that read the same input run as one; `None` if their
    /// forms differ.
    pub fn stack(parts: &[&Self]) -> Option<Self> {
        let (first, rest) = parts.split_first()?;
        let mut all = (*first).clone();
        for part in rest {
            let (rows, strips) = (all.rows as u32, all.lanes.len());
            let mut quads = all.quads.len();
            if (part.cols, part.block) != (all.cols, all.block) {
                return None;
            }
            match (&mut all.quads, &part.quads) {
                (Quads::Bytes(all), Quads::Bytes(part)) => all.extend(part),
                (Quads::Codes(all), Quads::Codes(part)) => all.extend(part),
                _ => return None,
            }
            match (&mut all.form, &part.form) {
                (Form::Dense, Form::Dense) => {}
                (Form::Expanded(all), Form::Expanded(part)) => {
                    quads = all.masks.len();
                    all.masks.extend(&part.masks);
                    let bytes = all.starts.pop()?;
                    all.kept.truncate(bytes);
                    all.kept.extend(&part.kept);
                    all.starts.extend(part.starts.iter().map(|at| at + bytes));
                }
                (Form::Kept(all), Form::Kept(part)) if all.period == part.period => {
                    let steps = all.offsets.pop()?;
                    all.index.extend(&part.index);
                    all.windows.extend(&part.windows);
                    all.offsets.extend(part.offsets.iter().map(|at| at + steps));
                }
                _ => return None,
            }
            let below = |row: u32| if row == NO_ROW { NO_ROW } else { row + rows };
            all.lanes.extend(part.lanes.iter().map(|lanes| lanes.map(below)));
            all.units.extend(part.units.iter().map(|unit| Unit {
                strip: unit.strip + strips,
                first: unit.first + quads,
                ..*unit
            }));
            all.places = places(all.rows + part.rows, &all.lanes);
            all.scales.extend(&part.scales);
            all.block_scales.extend(&part.block_scales);
            all.sums.extend(&part.sums);
            all.rows += part.rows;
        }
        Some(all)
    }
}
