//! Packed layouts: only the kept values, and the data needed to restore their positions.

mod balanced;
mod check;
mod grouped;
mod hierarchical;
mod unstructured;
mod words;

pub use balanced::BalancedPacked;
pub use grouped::GroupedPacked;
pub use hierarchical::HierarchicalPacked;
pub use unstructured::UnstructuredPacked;
use words::Words;

use crate::mask::Fingerprint;
use crate::pattern::kinds::hinm::Inner;
use crate::{Mask, Pattern, PatternError, RowOrder};

/// Masked matrix in the layout of its pattern.
///
/// ```
/// use burn_sparse_pattern::{Mask, Packed, Pattern};
///
/// let mask = Mask::from_bytes(2, 4, &[1, 0, 0, 1, 0, 1, 1, 0])?;
/// let weights = [1., 0., 0., 2., 0., 3., 4., 0.];
/// let packed = Packed::pack(&Pattern::balanced(2), &weights, &mask, None)?;
/// assert_eq!(packed.values(), [1., 2., 3., 4.]);
/// assert_eq!(packed.unpack(), weights);
/// # Ok::<(), burn_sparse_pattern::PatternError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Packed {
    /// `unstructured`: one bit per weight, and the kept values.
    Unstructured(UnstructuredPacked),
    /// `balanced` and `n-of-m`: fixed counts, in-block indices, no offsets.
    Balanced(BalancedPacked),
    /// `vector-wise`, `shfl-bw` and `block-wise`: columns shared by a group of rows.
    Grouped(GroupedPacked),
    /// `hinm`: columns shared by a group of rows, with in-run indices.
    Hierarchical(HierarchicalPacked),
}

impl Packed {
    /// Packs the values of row-major `weights` that `mask` keeps, including kept zeros.
    ///
    /// # Errors
    /// Returns an error if the mask violates the pattern, or keeps nothing (except `unstructured`), or the number of weights
    /// does not match.
    pub fn pack(
        pattern: &Pattern,
        weights: &[f32],
        mask: &Mask,
        row_order: Option<&RowOrder>,
    ) -> Result<Self, PatternError> {
        let (rows, cols) = (mask.rows(), mask.cols());
        if weights.len() != rows * cols {
            let (expected, found) = (rows * cols, weights.len());
            return Err(PatternError::Length { rows, cols, expected, found });
        }
        pattern.check(mask, row_order)?;
        if !matches!(pattern, Pattern::Unstructured {}) && mask.kept() == 0 {
            // The other layouts are not read back from empty arrays.
            return Err(PatternError::Violation {
                pattern: pattern.to_string(),
                place: "the whole matrix".into(),
                expected: "at least one kept weight".into(),
                found: "none".into(),
            });
        }
        Ok(match *pattern {
            Pattern::Unstructured {} => Self::Unstructured(UnstructuredPacked::pack(weights, mask)),
            Pattern::Balanced { block } | Pattern::NOfM { of: block, .. } => {
                Self::Balanced(BalancedPacked::pack(weights, mask, block))
            }
            Pattern::VectorWise { vector, .. } => {
                Self::Grouped(GroupedPacked::pack(weights, mask, vector, None))
            }
            Pattern::ShflBw { vector, .. } => {
                let recovered =
                    if row_order.is_none() { RowOrder::recover(mask, vector) } else { None };
                let order = row_order.or(recovered.as_ref());
                Self::Grouped(GroupedPacked::pack(weights, mask, vector, order))
            }
            Pattern::Hinm { vector, keep, of } => {
                // The fallback is never used: the check has rejected a mask without its order.
                let identity = RowOrder::identity(rows);
                let order = row_order.unwrap_or(&identity);
                let inner = Inner { keep, of };
                Self::Hierarchical(HierarchicalPacked::pack(weights, mask, vector, inner, order))
            }
            Pattern::BlockWise { block } => {
                Self::Grouped(GroupedPacked::pack(weights, mask, block, None))
            }
        })
    }

    /// Returns the number of rows (outputs).
    pub fn rows(&self) -> usize {
        match self {
            Self::Unstructured(packed) => packed.rows(),
            Self::Balanced(packed) => packed.rows(),
            Self::Grouped(packed) => packed.rows(),
            Self::Hierarchical(packed) => packed.rows(),
        }
    }

    /// Returns the number of columns (reduction).
    pub fn cols(&self) -> usize {
        match self {
            Self::Unstructured(packed) => packed.cols(),
            Self::Balanced(packed) => packed.cols(),
            Self::Grouped(packed) => packed.cols(),
            Self::Hierarchical(packed) => packed.cols(),
        }
    }

    /// Returns the original row at each position, if the rows were permuted.
    pub fn row_order(&self) -> Option<&RowOrder> {
        match self {
            Self::Unstructured(_) | Self::Balanced(_) => None,
            Self::Grouped(packed) => packed.row_order(),
            Self::Hierarchical(packed) => Some(packed.row_order()),
        }
    }

    /// Returns the row-major dense matrix, with dropped weights as zeros.
    pub fn unpack(&self) -> Vec<f32> {
        let mut weights = vec![0.0; self.rows() * self.cols()];
        self.visit(|row, col, value| weights[row * self.cols() + col] = value);
        weights
    }

    /// Returns the mask of the kept weights.
    pub fn mask(&self) -> Mask {
        let mut words = Vec::with_capacity(self.rows() * self.cols().div_ceil(64));
        self.each_words(|piece| words.extend_from_slice(piece));
        Mask::from_words(self.rows(), self.cols(), words)
    }

    /// Returns the [hash](Mask::hash) of the mask, without holding the whole mask in memory.
    pub fn mask_hash(&self) -> String {
        let mut fingerprint = Fingerprint::new(self.rows(), self.cols());
        self.each_words(|piece| fingerprint.add(piece));
        fingerprint.finish()
    }

    /// Returns the values of the layout, including the zeros that pad a short group.
    pub fn values(&self) -> &[f32] {
        match self {
            Self::Unstructured(packed) => packed.values(),
            Self::Balanced(packed) => packed.values(),
            Self::Grouped(packed) => packed.values(),
            Self::Hierarchical(packed) => packed.values(),
        }
    }

    /// Replaces every value by `map(row, column, value)`, except the zeros that pad a short group.
    pub fn map_values(&mut self, mut map: impl FnMut(usize, usize, f32) -> f32) {
        let places = self.value_places();
        let values = match self {
            Self::Unstructured(packed) => packed.values_mut(),
            Self::Balanced(packed) => packed.values_mut(),
            Self::Grouped(packed) => packed.values_mut(),
            Self::Hierarchical(packed) => packed.values_mut(),
        };
        for (value, place) in values.iter_mut().zip(places) {
            if let Some((row, col)) = place {
                *value = map(row as usize, col as usize, *value);
            }
        }
    }

    /// Returns the row and column of every value, `None` for the zeros that pad a short group.
    pub(crate) fn value_places(&self) -> Vec<Option<(u32, u32)>> {
        if let Self::Grouped(packed) = self {
            return packed.value_places();
        }
        let mut places = Vec::with_capacity(self.values().len());
        self.visit(|row, col, _| places.push(Some((row as u32, col as u32))));
        places
    }

    /// Returns the number of kept weights.
    pub fn kept(&self) -> usize {
        match self {
            Self::Unstructured(packed) => packed.values().len(),
            Self::Balanced(packed) => packed.values().len(),
            Self::Grouped(packed) => packed.kept(),
            Self::Hierarchical(packed) => packed.values().len(),
        }
    }

    /// Returns the exact share of zeros.
    pub fn sparsity(&self) -> f64 {
        let all = self.rows() * self.cols();
        (all - self.kept()) as f64 / all as f64
    }

    /// Checks that these arrays are a matrix of the pattern. Checks the same as [`Pattern::check`] on a
    /// mask, without building one.
    ///
    /// # Errors
    /// Returns the first violation.
    pub fn check(&self, pattern: &Pattern) -> Result<(), PatternError> {
        check::check(self, pattern)
    }

    /// Returns the same kept weights in the unstructured layout, which supports any mask.
    pub fn to_unstructured(&self) -> UnstructuredPacked {
        match self {
            Self::Unstructured(packed) => packed.clone(),
            _ => UnstructuredPacked::pack(&self.unpack(), &self.mask()),
        }
    }

    /// Calls `each` with the words of the mask, in the form of [`Mask::row`], row by row and in pieces.
    fn each_words(&self, each: impl FnMut(&[u64])) {
        let mut words = Words::new(self.cols(), each);
        match self {
            Self::Unstructured(packed) => {
                (0..packed.rows()).for_each(|row| packed.row_words(row, &mut words));
            }
            Self::Balanced(packed) => {
                (0..packed.rows()).for_each(|row| packed.row_words(row, &mut words));
            }
            Self::Grouped(packed) => packed.each_row(&mut words),
            Self::Hierarchical(packed) => {
                for place in packed.row_order().places() {
                    words.row(packed.place_columns(place as usize));
                }
            }
        }
        words.finish();
    }

    /// Calls `each(row, column, value)` for every kept weight.
    pub fn visit(&self, each: impl FnMut(usize, usize, f32)) {
        match self {
            Self::Unstructured(packed) => packed.visit(each),
            Self::Balanced(packed) => packed.visit(each),
            Self::Grouped(packed) => packed.visit(each),
            Self::Hierarchical(packed) => packed.visit(each),
        }
    }
}

/// Returns the error for arrays that the `new` of a layout rejects.
pub(crate) fn refuse(
    layout: &'static str,
    what: impl Into<String>,
    found: impl ToString,
    expected: impl ToString,
) -> PatternError {
    let (what, found, expected) = (what.into(), found.to_string(), expected.to_string());
    PatternError::Packed { layout, what, found, expected }
}
