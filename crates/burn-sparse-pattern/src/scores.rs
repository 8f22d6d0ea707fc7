use crate::{Mask, PatternError};

/// What ranks the weights of a `rows x cols` matrix: finite, non-negative, row-major.
#[derive(Debug, Clone, Copy)]
pub struct Scores<'a> {
    rows: usize,
    cols: usize,
    values: &'a [f32],
}

impl<'a> Scores<'a> {
    /// Takes `rows * cols` scores.
    ///
    /// # Errors
    /// When the matrix is empty, the length does not fit, or a score is negative, infinite or NaN.
    pub fn new(rows: usize, cols: usize, values: &'a [f32]) -> Result<Self, PatternError> {
        check_shape(rows, cols)?;
        if values.len() != rows * cols {
            let (expected, found) = (rows * cols, values.len());
            return Err(PatternError::Length { rows, cols, expected, found });
        }
        // `>= 0` is false for NaN, so this one pass finds every bad score.
        let bad = |s: &f32| !(*s >= 0.0 && *s <= f32::MAX);
        if let Some(at) = values.iter().position(bad) {
            return Err(PatternError::Score { row: at / cols, col: at % cols, found: values[at] });
        }
        Ok(Self { rows, cols, values })
    }

    /// Rows (outputs).
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns (reduction).
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All scores, row by row.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// The scores of one row.
    pub fn row(&self, row: usize) -> &'a [f32] {
        &self.values[row * self.cols..(row + 1) * self.cols]
    }
}

pub(crate) fn check_shape(rows: usize, cols: usize) -> Result<(), PatternError> {
    match rows.checked_mul(cols) {
        Some(n) if n > 0 && n < u32::MAX as usize => Ok(()),
        _ => Err(PatternError::Shape { rows, cols }),
    }
}

/// The share of a matrix's weight that a mask keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retained {
    /// Kept share of `sum |w|`.
    pub l1: f64,
    /// Kept share of `sum w^2`.
    pub l2: f64,
}

impl Retained {
    /// Measures `mask` on row-major `weights` of the same shape; a matrix of zeros retains all of it.
    ///
    /// # Errors
    /// When the number of weights does not fit the mask.
    pub fn measure(weights: &[f32], mask: &Mask) -> Result<Self, PatternError> {
        let (rows, cols) = (mask.rows(), mask.cols());
        if weights.len() != rows * cols {
            let (expected, found) = (rows * cols, weights.len());
            return Err(PatternError::Length { rows, cols, expected, found });
        }
        let (mut l1, mut l2, mut all_l1, mut all_l2) = (0.0, 0.0, 0.0, 0.0);
        for (row, weights) in weights.chunks_exact(cols).enumerate() {
            for (col, &weight) in weights.iter().enumerate() {
                let (abs, square) = (f64::from(weight).abs(), f64::from(weight).powi(2));
                all_l1 += abs;
                all_l2 += square;
                if mask.get(row, col) {
                    l1 += abs;
                    l2 += square;
                }
            }
        }
        let share = |kept: f64, all: f64| if all == 0.0 { 1.0 } else { kept / all };
        Ok(Self { l1: share(l1, all_l1), l2: share(l2, all_l2) })
    }
}
