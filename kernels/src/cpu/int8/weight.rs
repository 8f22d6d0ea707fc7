use super::dots::{CHUNK, QUAD_BYTES};
use crate::layout::TILE_ROWS;

/// Row of a lane that no row fills.
pub(super) const NO_ROW: u32 = u32::MAX;

/// Largest reduction for which no sum of products overflows an i32: 2^16 · 255 · 127 < 2^31.
pub(crate) const MOST_COLUMNS: usize = 1 << 16;

/// Weight of signed bytes with a scale for every row, in the order its kernels read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ByteWeight {
    pub(super) rows: usize,
    pub(super) cols: usize,
    /// Row in every lane of every strip, [`NO_ROW`] where there is none.
    pub(super) lanes: Vec<[u32; TILE_ROWS]>,
    /// Scale of every lane.
    pub(super) scales: Vec<[f32; TILE_ROWS]>,
    /// Minus the offset of inputs times the sum of a row's weights, for every lane.
    pub(super) starts: Vec<[i32; TILE_ROWS]>,
    /// Quads of weights.
    pub(super) quads: Vec<Quad>,
    pub(super) form: Form,
}

/// A quad of every row of a strip, on one cache line.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
pub(super) struct Quad(pub(super) [i8; QUAD_BYTES]);

impl Quad {
    pub(super) const ZERO: Self = Self([0; QUAD_BYTES]);
}

/// Where the rows of a strip find their inputs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    /// All rows of a unit keep the same columns.
    Shared(Shared),
    /// Every row keeps columns of its own.
    LookUp(LookUp),
}

/// Units of one or two strips. A unit reads one group of columns, or if groups are shorter than a strip, as many as fill it:
/// lane `i` belongs to group `i % period`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shared {
    pub(super) period: usize,
    pub(super) units: Vec<Unit>,
    /// Kept columns of every group of every unit, one bit each; empty if all are kept.
    pub(super) masks: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unit {
    /// First strip.
    pub(super) strip: usize,
    /// Number of strips, one or two.
    pub(super) strips: usize,
    /// First of its quads, ordered by step and then by strip.
    pub(super) first: usize,
    /// Number of steps, each of a quad for every strip.
    pub(super) steps: usize,
}

/// Inputs looked up by every row, chunk by chunk of the columns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LookUp {
    /// Column within its chunk of every weight of a quad.
    pub(super) index: Vec<Quad>,
    /// First quad of every chunk of every strip, and the end.
    pub(super) offsets: Vec<u32>,
}

impl ByteWeight {
    /// Returns the number of outputs.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the size of the reduction.
    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the number of chunks of the columns.
    pub(super) fn chunks(&self) -> usize {
        self.cols.div_ceil(CHUNK)
    }

    /// Returns the number of units that threads share out.
    pub(super) fn units(&self) -> usize {
        match &self.form {
            Form::Shared(shared) => shared.units.len(),
            Form::LookUp(_) => self.lanes.len(),
        }
    }

    /// Returns the number of multiply-adds per token, with padding.
    pub(crate) fn work(&self) -> usize {
        self.quads.len() * QUAD_BYTES
    }

    /// Returns the number of bytes that a token reads.
    pub(crate) fn bytes(&self) -> usize {
        let places = match &self.form {
            Form::Shared(shared) => 8 * shared.masks.len(),
            Form::LookUp(look_up) => QUAD_BYTES * look_up.index.len() + 4 * look_up.offsets.len(),
        };
        places + QUAD_BYTES * self.quads.len() + 12 * TILE_ROWS * self.lanes.len()
    }

    /// Returns the name of its form, as kernel names spell it.
    pub(crate) fn family(&self) -> &'static str {
        match &self.form {
            Form::Shared(shared) if shared.masks.is_empty() => "dense",
            Form::Shared(_) => "grouped",
            Form::LookUp(_) => "look-up",
        }
    }

    /// Stacks the rows of weights of the same columns, so that layers that read the same input run as one; `None` if their
    /// forms differ.
    pub(crate) fn stack(parts: &[&Self]) -> Option<Self> {
        let (first, rest) = parts.split_first()?;
        let mut all = (*first).clone();
        for part in rest {
            if part.cols != all.cols || part.family() != all.family() {
                return None;
            }
            let (strips, quads) = (all.lanes.len(), all.quads.len());
            match (&mut all.form, &part.form) {
                (Form::Shared(all), Form::Shared(part)) if all.period == part.period => {
                    let moved = |unit: &Unit| Unit {
                        strip: unit.strip + strips,
                        first: unit.first + quads,
                        ..*unit
                    };
                    all.units.extend(part.units.iter().map(moved));
                    all.masks.extend(&part.masks);
                }
                (Form::LookUp(all), Form::LookUp(part)) => {
                    all.index.extend(&part.index);
                    all.offsets.extend(part.offsets[1..].iter().map(|at| at + quads as u32));
                }
                _ => return None,
            }
            let (above, moved) = (all.rows as u32, |row: u32| row.saturating_add(all.rows as u32));
            debug_assert!(above < NO_ROW);
            all.lanes.extend(part.lanes.iter().map(|lanes| lanes.map(moved)));
            all.scales.extend(&part.scales);
            all.starts.extend(&part.starts);
            all.quads.extend(&part.quads);
            all.rows += part.rows;
        }
        Some(all)
    }
}
