use super::dots::{CHUNK, QUAD, QUAD_BYTES};
use super::expanded::{Bytes, Codes, Packing};
use super::weight::{ByteWeight, Expanded, Form, NO_ROW, Unit};
use crate::layout::TILE_ROWS;

impl ByteWeight {
    /// Returns the row-major matrix of floats that the bytes represent.
    pub fn unpack(&self) -> Vec<f32> {
        let mut dense = vec![0.0; self.rows * self.cols];
        self.entries(|row, col, byte, scale| {
            dense[row * self.cols + col] = f32::from(byte) * scale;
        });
        dense
    }

    /// Appends a row of [`Self::unpack`] of a dense weight to `to`.
    ///
    /// # Panics
    /// Panics if there is no such row, or the weight is pruned.
    pub fn dense_row(&self, row: usize, to: &mut Vec<f32>) {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        assert!(self.form == Form::Dense, "a row of a pruned weight");
        // Rows are in order, but those of a stacked part begin with a strip of their own.
        let place = self.places.get(row).map_or(row, |&place| place as usize);
        let (strip, lane) = (place / TILE_ROWS, place % TILE_ROWS);
        let unit = self.units[self.units.partition_point(|unit| unit.strip <= strip) - 1];
        let first = unit.first + strip - unit.strip;
        to.extend((0..self.cols).map(|col| {
            let (at, place) = (first + col / QUAD * unit.strips, lane * QUAD + col % QUAD);
            f32::from(self.quads.weight(at, place)) * self.scale(strip, lane, col)
        }));
    }

    /// Calls `each(row, column, byte, scale)` for every byte that is not zero.
    fn entries(&self, mut each: impl FnMut(usize, usize, i8, f32)) {
        for (at, &unit) in self.units.iter().enumerate() {
            let expanded = self.spread(at, unit);
            self.steps(at, |step, chunk| {
                for strip in 0..unit.strips {
                    let quad = step * unit.strips + strip;
                    for place in 0..TILE_ROWS * QUAD {
                        let (lane, slot) = (place / QUAD, place % QUAD);
                        let row = self.lanes[unit.strip + strip][lane];
                        let weight = match &expanded {
                            Some(quads) => quads[quad][place],
                            None => self.quads.weight(unit.first + quad, place),
                        };
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

    /// Returns the quads of a unit if only its kept weights are stored.
    fn spread(&self, at: usize, unit: Unit) -> Option<Vec<[i8; QUAD_BYTES]>> {
        let Form::Expanded(expanded) = &self.form else { return None };
        let steps = self.cols.div_ceil(QUAD);
        Some(match (self.is_int4(), unit.strips) {
            (false, 1) => expanded.quads::<Bytes, 1>(at, unit, steps),
            (false, _) => expanded.quads::<Bytes, 2>(at, unit, steps),
            (true, 1) => expanded.quads::<Codes, 1>(at, unit, steps),
            (true, _) => expanded.quads::<Codes, 2>(at, unit, steps),
        })
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
            Form::Dense | Form::Expanded(_) => {
                (0..self.cols.div_ceil(QUAD)).for_each(|step| each(step, 0))
            }
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
            Form::Dense | Form::Expanded(_) => step * QUAD + slot,
            Form::Kept(kept) => {
                let step = kept.offsets[unit * self.chunks()] as usize + step;
                let group = step * kept.period + lane % kept.period;
                chunk * CHUNK + usize::from(kept.index[group * QUAD + slot])
            }
        }
    }
}

impl Expanded {
    /// Returns the quads of a unit with this many steps.
    fn quads<P: Packing, const STRIPS: usize>(
        &self,
        at: usize,
        unit: Unit,
        steps: usize,
    ) -> Vec<[i8; QUAD_BYTES]> {
        let mut left = self.steps::<P, STRIPS>(at, &unit);
        // SAFETY: a unit has this many steps.
        (0..steps).flat_map(|_| unsafe { left.quads() }).collect()
    }
}
