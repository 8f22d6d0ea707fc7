use crate::packed::refuse;
use crate::{Mask, PatternError};

const LAYOUT: &str = "unstructured";

/// One bit per weight and the kept values, row by row, columns ascending.
#[derive(Debug, Clone, PartialEq)]
pub struct UnstructuredPacked {
    mask: Mask,
    values: Vec<f32>,
}

impl UnstructuredPacked {
    pub(crate) fn pack(weights: &[f32], mask: &Mask) -> Self {
        let values = (0..mask.rows())
            .flat_map(|row| mask.row_columns(row).map(move |col| weights[row * mask.cols() + col]))
            .collect();
        Self { mask: mask.clone(), values }
    }

    /// Takes a row-major bit mask (each row padded to whole bytes, lowest bit first) and the values.
    ///
    /// # Errors
    /// When lengths do not fit, or a padding bit is set.
    pub fn new(
        rows: usize,
        cols: usize,
        bitmask: &[u8],
        values: Vec<f32>,
    ) -> Result<Self, PatternError> {
        crate::scores::check_shape(rows, cols)?;
        let width = cols.div_ceil(8);
        if bitmask.len() != rows * width {
            return Err(refuse(LAYOUT, "bitmask length", bitmask.len(), rows * width));
        }
        let bit = |row: usize, col: usize| bitmask[row * width + col / 8] >> (col % 8) & 1 == 1;
        if let Some(row) = (0..rows).find(|&row| (cols..width * 8).any(|col| bit(row, col))) {
            return Err(refuse(
                LAYOUT,
                format!("bitmask row {row}"),
                "a bit past the last column",
                cols,
            ));
        }
        let mask = Mask::from_fn(rows, cols, bit)?;
        if values.len() != mask.kept() {
            return Err(refuse(LAYOUT, "number of values", values.len(), mask.kept()));
        }
        Ok(Self { mask, values })
    }

    /// Rows (outputs).
    pub fn rows(&self) -> usize {
        self.mask.rows()
    }

    /// Columns (reduction).
    pub fn cols(&self) -> usize {
        self.mask.cols()
    }

    /// Which weights are kept.
    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    /// The kept values, row by row, columns ascending.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The bit mask as bytes: each row padded to whole bytes, lowest bit first.
    pub fn bitmask(&self) -> Vec<u8> {
        let width = self.cols().div_ceil(8);
        (0..self.rows())
            .flat_map(|row| {
                let bytes = self.mask.row(row).iter().flat_map(|word| word.to_le_bytes());
                bytes.take(width)
            })
            .collect()
    }

    pub(crate) fn visit(&self, mut each: impl FnMut(usize, usize, f32)) {
        let mut values = self.values.iter();
        for row in 0..self.rows() {
            for (col, &value) in self.mask.row_columns(row).zip(&mut values) {
                each(row, col, value);
            }
        }
    }
}
