use super::dots::{CHUNK, QUAD};
use super::weight::{ByteWeight, Form, NO_ROW};
use crate::layout::TILE_ROWS;

impl ByteWeight {
    /// Returns the row-major matrix of floats that the bytes stand for.
    pub fn unpack(&self) -> Vec<f32> {
        let mut dense = vec![0.0; self.rows * self.cols];
        self.entries(|row, col, byte, scale| {
            dense[row * self.cols + col] = f32::from(byte) * scale;
        });
        dense
    }

    /// Appends a row of [`Self::unpack`] to `to`, of a dense weight.
    ///
    /// # Panics
    /// Panics if there is no such row, or the weight is pruned.
    pub fn dense_row(&self, row: usize, to: &mut Vec<f32>) {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        assert!(self.form == Form::Dense, "a row of a pruned weight");
        let (strip, lane) = (row / TILE_ROWS, row % TILE_ROWS);
        let unit = self.units[strip / 2];
        let first = unit.first + strip - unit.strip;
        to.extend((0..self.cols).map(|col| {
            let (at, place) = (first + col / QUAD * unit.strips, lane * QUAD + col % QUAD);
            f32::from(self.quads.weight(at, place)) * self.scale(strip, lane, col)
        }));
    }

    /// Calls `each(row, column, byte, scale)` for every byte that is not zero.
    fn entries(&self, mut each: impl FnMut(usize, usize, i8, f32)) {
        for at in 0..self.units.len() {
            self.steps(at, |step, chunk| {
                let unit = self.units[at];
                for strip in 0..unit.strips {
                    let quad = unit.first + step * unit.strips + strip;
                    for place in 0..TILE_ROWS * QUAD {
                        let (lane, slot) = (place / QUAD, place % QUAD);
                        let row = self.lanes[unit.strip + strip][lane];
                        let weight = self.quads.weight(quad, place);
                        if row != NO_ROW && weight != 0 {
                            let col = self.column(at, step, chunk, lane, slot);
                            let scale = self.scale(unit.strip + strip, lane, col);
                            each(row as usize, col, weight, scale);
                        }
                    }
                }
            });
        }
    }

    /// Returns the scale of a weight.
    fn scale(&self, strip: usize, lane: usize, col: usize) -> f32 {
        let at = strip * self.blocks() + col / self.block;
        let of_block = self.block_scales.get(at).map_or(1.0, |scales| scales[lane].to_f32());
        self.scales[strip][lane] * of_block
    }

    /// Calls `each(step, chunk)` for every step of a unit.
    fn steps(&self, unit: usize, mut each: impl FnMut(usize, usize)) {
        match &self.form {
            Form::Dense => (0..self.cols.div_ceil(QUAD)).for_each(|step| each(step, 0)),
            Form::Kept(kept) => {
                let offsets = &kept.offsets[unit * self.chunks()..][..=self.chunks()];
                for (chunk, ends) in offsets.windows(2).enumerate() {
                    (ends[0]..ends[1]).for_each(|step| each((step - offsets[0]) as usize, chunk));
                }
            }
        }
    }

    fn column(&self, unit: usize, step: usize, chunk: usize, lane: usize, slot: usize) -> usize {
        match &self.form {
            Form::Dense => step * QUAD + slot,
            Form::Kept(kept) => {
                let step = kept.offsets[unit * self.chunks()] as usize + step;
                let group = step * kept.period + lane % kept.period;
                chunk * CHUNK + usize::from(kept.index[group * QUAD + slot])
            }
        }
    }
}
