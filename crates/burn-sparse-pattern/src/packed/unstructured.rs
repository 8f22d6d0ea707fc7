use crate::packed::refuse;
use crate::packed::words::Words;
use crate::{Mask, PatternError};

const LAYOUT: &str = "unstructured";

/// One bit per weight, and the kept values, row by row with columns ascending.
#[derive(Debug, Clone, PartialEq)]
pub struct UnstructuredPacked {
    rows: usize,
    cols: usize,
    /// Bits of each row, padded to whole bytes, lowest bit first.
    bitmask: Vec<u8>,
    values: Vec<f32>,
}

impl UnstructuredPacked {
    pub(crate) fn pack(weights: &[f32], mask: &Mask) -> Self {
        let (rows, cols) = (mask.rows(), mask.cols());
        let values = (0..rows)
            .flat_map(|row| mask.row_columns(row).map(move |col| weights[row * cols + col]))
            .collect();
        let bytes = |row| mask.row(row).iter().flat_map(|word| word.to_le_bytes());
        let bitmask = (0..rows).flat_map(|row| bytes(row).take(cols.div_ceil(8))).collect();
        Self { rows, cols, bitmask, values }
    }

    /// Creates the layout from a row-major bitmask (each row padded to whole bytes, lowest bit first)
    /// and the values.
    ///
    /// # Errors
    /// Returns an error if the lengths do not match, or a padding bit is set.
    pub fn new(
        rows: usize,
        cols: usize,
        bitmask: Vec<u8>,
        values: Vec<f32>,
    ) -> Result<Self, PatternError> {
        crate::shape::check_shape(rows, cols)?;
        let width = cols.div_ceil(8);
        if bitmask.len() != rows * width {
            return Err(refuse(LAYOUT, "bitmask length", bitmask.len(), rows * width));
        }
        // Bits of the last byte of a row that correspond to no column.
        let padding = !(u8::MAX >> ((8 - cols % 8) % 8));
        if let Some(row) = (0..rows).find(|row| bitmask[(row + 1) * width - 1] & padding != 0) {
            let what = format!("bitmask row {row}");
            return Err(refuse(LAYOUT, what, "a bit past the last column", cols));
        }
        let kept = bitmask.iter().map(|byte| byte.count_ones() as usize).sum::<usize>();
        if values.len() != kept {
            return Err(refuse(LAYOUT, "number of values", values.len(), kept));
        }
        Ok(Self { rows, cols, bitmask, values })
    }

    /// Returns the number of rows (outputs).
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns (reduction).
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the kept values, row by row with columns ascending.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns the bitmask as bytes: each row padded to whole bytes, lowest bit first.
    pub fn bitmask(&self) -> &[u8] {
        &self.bitmask
    }

    /// Returns the number of values before those of each row.
    pub fn row_offsets(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.rows).scan(0, |end, row| {
            let begin = *end;
            *end += self.row_columns(row).count();
            Some(begin)
        })
    }

    /// Returns the kept columns of one row, ascending.
    pub fn row_columns(&self, row: usize) -> impl Iterator<Item = usize> + '_ {
        let width = self.cols.div_ceil(8);
        let bytes = self.bitmask[row * width..][..width].iter().enumerate();
        bytes.flat_map(|(at, &byte)| {
            (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| 8 * at + bit)
        })
    }

    /// Appends the mask bits of one row to `words`, as whole words.
    pub(super) fn row_words(&self, row: usize, words: &mut Words<impl FnMut(&[u64])>) {
        let width = self.cols.div_ceil(8);
        for bytes in self.bitmask[row * width..][..width].chunks(8) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            words.push(u64::from_le_bytes(whole));
        }
    }

    pub(super) fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    pub(crate) fn visit(&self, mut each: impl FnMut(usize, usize, f32)) {
        let mut values = self.values.iter();
        for row in 0..self.rows {
            for (col, &value) in self.row_columns(row).zip(&mut values) {
                each(row, col, value);
            }
        }
    }
}
