use crate::shape::check_shape;
use crate::{Mask, PatternError};

/// Scores that rank the weights of a `rows x cols` matrix: finite, non-negative, row-major.
///
/// ```
/// use burn_sparse_pattern::Scores;
///
/// let scores = Scores::new(2, 2, &[0.5, 0.0, 2.0, 1.0])?;
/// assert_eq!(scores.row(1), [2.0, 1.0]);
/// assert!(Scores::new(2, 2, &[0.5, f32::NAN, 2.0, 1.0]).is_err());
/// # Ok::<(), burn_sparse_pattern::PatternError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Scores<'a> {
    rows: usize,
    cols: usize,
    values: &'a [f32],
}

impl<'a> Scores<'a> {
    /// Creates scores from `rows * cols` values.
    ///
    /// # Errors
    /// Returns an error if the matrix is empty, the length does not match, or a score is negative,
    /// infinite or NaN.
    pub fn new(rows: usize, cols: usize, values: &'a [f32]) -> Result<Self, PatternError> {
        check_shape(rows, cols)?;
        if values.len() != rows * cols {
            let (expected, found) = (rows * cols, values.len());
            return Err(PatternError::Length { rows, cols, expected, found });
        }
        // `>= 0` is false for NaN, so this single pass finds every invalid score.
        let bad = |s: &f32| !(*s >= 0.0 && *s <= f32::MAX);
        if let Some(at) = values.iter().position(bad) {
            return Err(PatternError::Score { row: at / cols, col: at % cols, found: values[at] });
        }
        Ok(Self { rows, cols, values })
    }

    /// Returns the number of rows (outputs).
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns (reduction).
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns all scores, row by row.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// Returns the scores of one row.
    pub fn row(&self, row: usize) -> &'a [f32] {
        &self.values[row * self.cols..(row + 1) * self.cols]
    }
}

/// Share of a matrix's weight that a mask keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retained {
    /// Kept share of `sum |w|`.
    pub l1: f64,
    /// Kept share of `sum w^2`.
    pub l2: f64,
}

impl Retained {
    /// Measures `mask` on row-major `weights` of the same shape; the share of an all-zero matrix is 1.
    ///
    /// # Errors
    /// Returns an error if the number of weights does not match the mask.
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
