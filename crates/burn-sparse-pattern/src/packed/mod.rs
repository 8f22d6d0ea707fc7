//! Packed layouts: only the kept values, and what is needed to put each back in its place.

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

/// A masked matrix in the layout of its pattern.
#[derive(Debug, Clone, PartialEq)]
pub enum Packed {
    /// `unstructured`: one bit per weight and the kept values.
    Unstructured(UnstructuredPacked),
    /// `balanced` and `n-of-m`: fixed counts, in-block indices, no offsets.
    Balanced(BalancedPacked),
    /// `vector-wise`, `shfl-bw` and `block-wise`: columns shared by a group of rows.
    Grouped(GroupedPacked),
    /// `hinm`: columns shared by a group of rows, in-run indices inside them.
    Hierarchical(HierarchicalPacked),
}

impl Packed {
    /// Keeps the values of row-major `weights` that `mask` keeps, zeros among them.
    ///
    /// # Errors
    /// When the mask breaks the pattern, or the number of weights does not fit.
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
                // The check has refused a mask without its order.
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

    /// Rows (outputs).
    pub fn rows(&self) -> usize {
        match self {
            Self::Unstructured(packed) => packed.rows(),
            Self::Balanced(packed) => packed.rows(),
            Self::Grouped(packed) => packed.rows(),
            Self::Hierarchical(packed) => packed.rows(),
        }
    }

    /// Columns (reduction).
    pub fn cols(&self) -> usize {
        match self {
            Self::Unstructured(packed) => packed.cols(),
            Self::Balanced(packed) => packed.cols(),
            Self::Grouped(packed) => packed.cols(),
            Self::Hierarchical(packed) => packed.cols(),
        }
    }

    /// The original row at every place, where rows were moved.
    pub fn row_order(&self) -> Option<&RowOrder> {
        match self {
            Self::Unstructured(_) | Self::Balanced(_) => None,
            Self::Grouped(packed) => packed.row_order(),
            Self::Hierarchical(packed) => Some(packed.row_order()),
        }
    }

    /// The row-major dense matrix, dropped weights as zeros.
    pub fn unpack(&self) -> Vec<f32> {
        let mut weights = vec![0.0; self.rows() * self.cols()];
        self.visit(|row, col, value| weights[row * self.cols() + col] = value);
        weights
    }

    /// Which weights are kept.
    pub fn mask(&self) -> Mask {
        let mut words = Vec::with_capacity(self.rows() * self.cols().div_ceil(64));
        self.each_words(|piece| words.extend_from_slice(piece));
        Mask::from_words(self.rows(), self.cols(), words)
    }

    /// The [hash](Mask::hash) of the mask, which is never in memory as a whole.
    pub fn mask_hash(&self) -> String {
        let mut fingerprint = Fingerprint::new(self.rows(), self.cols());
        self.each_words(|piece| fingerprint.add(piece));
        fingerprint.finish()
    }

    /// The values of its layout, the zeros that pad a short group among them.
    pub fn values(&self) -> &[f32] {
        match self {
            Self::Unstructured(packed) => packed.values(),
            Self::Balanced(packed) => packed.values(),
            Self::Grouped(packed) => packed.values(),
            Self::Hierarchical(packed) => packed.values(),
        }
    }

    /// The number of kept weights.
    pub fn kept(&self) -> usize {
        match self {
            Self::Unstructured(packed) => packed.values().len(),
            Self::Balanced(packed) => packed.values().len(),
            Self::Grouped(packed) => packed.kept(),
            Self::Hierarchical(packed) => packed.values().len(),
        }
    }

    /// The share of zeros, exactly.
    pub fn sparsity(&self) -> f64 {
        let all = self.rows() * self.cols();
        (all - self.kept()) as f64 / all as f64
    }

    /// Proves that these arrays are a matrix of the pattern: what [`Pattern::check`] proves of a mask,
    /// without one.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self, pattern: &Pattern) -> Result<(), PatternError> {
        check::check(self, pattern)
    }

    /// The same kept weights in the layout that takes any mask.
    pub fn to_unstructured(&self) -> UnstructuredPacked {
        match self {
            Self::Unstructured(packed) => packed.clone(),
            _ => UnstructuredPacked::pack(&self.unpack(), &self.mask()),
        }
    }

    /// Calls `each` with the words of the mask, as [`Mask::row`] has them, row after row, in pieces.
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
    fn visit(&self, each: impl FnMut(usize, usize, f32)) {
        match self {
            Self::Unstructured(packed) => packed.visit(each),
            Self::Balanced(packed) => packed.visit(each),
            Self::Grouped(packed) => packed.visit(each),
            Self::Hierarchical(packed) => packed.visit(each),
        }
    }
}

/// An error of one layout's `new`.
pub(crate) fn refuse(
    layout: &'static str,
    what: impl Into<String>,
    found: impl ToString,
    expected: impl ToString,
) -> PatternError {
    let (what, found, expected) = (what.into(), found.to_string(), expected.to_string());
    PatternError::Packed { layout, what, found, expected }
}
