//! Number of zeros that a pattern gives a matrix.

use crate::count::Unit;
use crate::pattern::kinds::{balanced, hinm::Inner};
use crate::{Pattern, PatternError};

impl Pattern {
    /// Returns the sparsity that the parameters of the pattern fix, if they do.
    pub fn fixed_sparsity(&self) -> Option<f64> {
        match *self {
            Self::NOfM { keep, of } => Some(1.0 - keep as f64 / of as f64),
            _ => None,
        }
    }

    /// Computes the number of zeros that a target gives a `rows x cols` matrix, up to [`Self::zeros_tolerance`].
    ///
    /// # Errors
    /// Returns an error if the shape or a parameter of the pattern is out of range, or the target keeps nothing or everything,
    /// naming the nearest valid sparsities.
    pub fn target_zeros(
        &self,
        rows: usize,
        cols: usize,
        sparsity: f64,
    ) -> Result<usize, PatternError> {
        crate::shape::check_shape(rows, cols)?;
        self.validate()?;
        let units = || self.unit(rows, cols).target(sparsity);
        let kept = match *self {
            Self::Unstructured {} => units()?,
            Self::Balanced { block } | Self::NOfM { of: block, .. } => {
                rows * balanced::Counts::new(cols, block, sparsity, units()?).row()
            }
            Self::VectorWise { vector, equal_groups } | Self::ShflBw { vector, equal_groups } => {
                match rows.div_ceil(vector) {
                    // Every row, including those of a short last group, keeps the same number of
                    // columns.
                    _ if equal_groups => rows * units()?,
                    // The number of columns per group depends on the scores; a short last group may
                    // keep more or less than its share.
                    groups => (rows * units()?) / groups,
                }
            }
            // The unit is a run, which keeps several weights of a row at once.
            Self::Hinm { keep, of, .. } => rows * Inner { keep, of }.target(cols, sparsity)? * keep,
            // Blocks at the border are smaller, so this is exact only if the block divides the matrix.
            Self::BlockWise { block } => {
                (rows * cols * units()?) / (rows.div_ceil(block) * cols.div_ceil(block))
            }
        };
        Ok(rows * cols - kept)
    }

    /// Returns the sparsity nearest to `wish` at which a `rows x cols` mask obeys the pattern and keeps
    /// something, or 0 (a dense layer) if `wish` rounds to keeping everything.
    ///
    /// Intended for a layer's share from a [`Distribution`](crate::Distribution), where rounding to a
    /// limit is not the user's error.
    ///
    /// # Errors
    /// Returns an error if a parameter is out of range, or the matrix is too small for the pattern.
    pub fn nearest_sparsity(
        &self,
        rows: usize,
        cols: usize,
        wish: f64,
    ) -> Result<f64, PatternError> {
        crate::shape::check_shape(rows, cols)?;
        self.validate()?;
        if let Some(fixed) = self.fixed_sparsity() {
            return self.target_zeros(rows, cols, fixed).map(|_| fixed);
        }
        if self.target_zeros(rows, cols, wish).is_ok() {
            return Ok(wish);
        }
        let (least, most) = match *self {
            Self::Hinm { keep, of, .. } => {
                let share = |runs: usize| 1.0 - (runs * keep) as f64 / cols as f64;
                // Fails if a row is shorter than a run.
                Inner { keep, of }.runs(cols, share(1).max(0.0))?;
                (share(cols / of), share(1))
            }
            _ => {
                let one = 1.0 / self.unit(rows, cols).len as f64;
                (one, 1.0 - one)
            }
        };
        Ok(if wish < least / 2.0 { 0.0 } else { wish.clamp(least.min(most), most) })
    }

    /// Returns by how much the number of zeros of a mask may differ from [`Self::target_zeros`]. It is 0 unless vectors or
    /// blocks at the border are smaller than the others: scores decide which of them are kept.
    pub fn zeros_tolerance(&self, rows: usize, cols: usize) -> usize {
        match *self {
            Self::VectorWise { vector, equal_groups: false }
            | Self::ShflBw { vector, equal_groups: false } => {
                (rows.next_multiple_of(vector.max(1)) - rows) * cols
            }
            Self::BlockWise { block } => {
                let block = block.max(1);
                rows.next_multiple_of(block) * cols.next_multiple_of(block) - rows * cols
            }
            _ => 0,
        }
    }

    /// Returns the unit that keeps a whole number of elements.
    pub(super) fn unit(&self, rows: usize, cols: usize) -> Unit {
        let (len, name) = match *self {
            Self::Unstructured {} => (rows * cols, "weights of the matrix".into()),
            Self::Balanced { block } | Self::NOfM { of: block, .. } => {
                (block.min(cols), "weights of a block".into())
            }
            Self::VectorWise { equal_groups: true, .. }
            | Self::ShflBw { equal_groups: true, .. } => (cols, "columns of a group".into()),
            Self::VectorWise { vector, .. } | Self::ShflBw { vector, .. } => {
                (rows.div_ceil(vector) * cols, format!("{vector}x1 vectors of the matrix"))
            }
            Self::Hinm { .. } => (cols, "weights of a row".into()),
            Self::BlockWise { block } => (
                rows.div_ceil(block) * cols.div_ceil(block),
                format!("{block}x{block} blocks of the matrix"),
            ),
        };
        Unit { len, name }
    }
}
