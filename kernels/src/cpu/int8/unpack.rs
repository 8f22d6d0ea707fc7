use super::dots::{CHUNK, QUAD};
use super::weight::{ByteWeight, Form, NO_ROW};
use crate::layout::TILE_ROWS;

impl ByteWeight {
    /// Returns the row-major matrix of floats that the bytes stand for.
    pub(crate) fn unpack(&self) -> Vec<f32> {
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
    pub(crate) fn dense_row(&self, row: usize, to: &mut Vec<f32>) {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let (strip, lane) = (row / TILE_ROWS, row % TILE_ROWS);
        let unit = match &self.form {
            Form::Shared(shared) if shared.masks.is_empty() => shared.units[strip / 2],
            _ => panic!("a row of a pruned weight in 8 bits"),
        };
        let (first, scale) = (unit.first + strip - unit.strip, self.scales[strip][lane]);
        to.extend((0..self.cols).map(|col| {
            let quad = &self.quads[first + col / QUAD * unit.strips];
            f32::from(quad.0[lane * QUAD + col % QUAD]) * scale
        }));
    }

    /// Calls `each(row, column, byte, scale)` for every byte that is not zero.
    fn entries(&self, mut each: impl FnMut(usize, usize, i8, f32)) {
        let mut quad = |strip: usize, quad: usize, column: &dyn Fn(usize, usize) -> usize| {
            for lane in 0..TILE_ROWS {
                let row = self.lanes[strip][lane];
                for slot in 0..QUAD {
                    let byte = self.quads[quad].0[lane * QUAD + slot];
                    if row != NO_ROW && byte != 0 {
                        each(row as usize, column(lane, slot), byte, self.scales[strip][lane]);
                    }
                }
            }
        };
        match &self.form {
            Form::Shared(shared) => {
                let words = self.cols.div_ceil(64);
                for (at, unit) in shared.units.iter().enumerate() {
                    let columns: Vec<Vec<usize>> = (0..shared.period)
                        .map(|group| match shared.masks.is_empty() {
                            true => (0..self.cols).collect(),
                            false => {
                                let from = (at * shared.period + group) * words;
                                set_bits(&shared.masks[from..from + words])
                            }
                        })
                        .collect();
                    for step in 0..unit.steps {
                        for strip in 0..unit.strips {
                            quad(
                                unit.strip + strip,
                                unit.first + step * unit.strips + strip,
                                &|lane, slot| columns[lane % shared.period][step * QUAD + slot],
                            );
                        }
                    }
                }
            }
            Form::LookUp(look_up) => {
                for strip in 0..self.lanes.len() {
                    for chunk in 0..self.chunks() {
                        let at = strip * self.chunks() + chunk;
                        for which in look_up.offsets[at]..look_up.offsets[at + 1] {
                            let which = which as usize;
                            quad(strip, which, &|lane, slot| {
                                let within = look_up.index[which].0[lane * QUAD + slot];
                                chunk * CHUNK + within as usize
                            });
                        }
                    }
                }
            }
        }
    }
}

fn set_bits(words: &[u64]) -> Vec<usize> {
    let bits = words.iter().enumerate();
    bits.flat_map(|(at, word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit))
        .collect()
}
