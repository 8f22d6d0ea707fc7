//! Checks that a mask obeys its pattern.

use crate::pattern::kinds::hinm::{self, Inner};
use crate::pattern::kinds::{balanced, block_wise, vector_wise};
use crate::{Mask, Pattern, PatternError, RowOrder};

impl Pattern {
    /// Checks that `mask` obeys the pattern.
    ///
    /// The row order is optional for `shfl-bw`: without one, a valid order is searched for. `hinm`
    /// requires it.
    ///
    /// # Errors
    /// Returns an error that describes the first violation: its place, and what was expected and found.
    pub fn check(&self, mask: &Mask, row_order: Option<&RowOrder>) -> Result<(), PatternError> {
        self.validate()?;
        let violation = |place: String, expected: String, found: String| PatternError::Violation {
            pattern: self.to_string(),
            place,
            expected,
            found,
        };
        let found = match *self {
            Self::Unstructured {} => Ok(()),
            Self::Balanced { block } => balanced::check(mask, block, None),
            Self::NOfM { keep, of } => balanced::check(mask, of, Some(keep)),
            Self::BlockWise { block } => block_wise::check(mask, block),
            Self::VectorWise { vector, equal_groups } => {
                vector_wise::check(mask, vector, equal_groups, &RowOrder::identity(mask.rows()))
            }
            Self::ShflBw { vector, equal_groups } => {
                let recovered;
                let order = match fitting(row_order, mask)? {
                    Some(order) => order,
                    None => {
                        recovered = RowOrder::recover(mask, vector).ok_or_else(|| {
                            violation(
                                "the whole matrix".into(),
                                format!("groups of {vector} rows with equal columns"),
                                "no row order that makes such groups".into(),
                            )
                        })?;
                        &recovered
                    }
                };
                vector_wise::check(mask, vector, equal_groups, order)
            }
            Self::Hinm { vector, keep, of } => {
                let order = fitting(row_order, mask)?.ok_or_else(|| {
                    // Rows of a group keep different weights, so the groups cannot be recovered from
                    // the mask.
                    let expected = "a row order, which the mask alone does not tell".into();
                    violation("the whole matrix".into(), expected, "none".into())
                })?;
                hinm::check(mask, vector, Inner { keep, of }, order)
            }
        };
        found.map_err(|v| violation(v.place, v.expected, v.found))
    }
}

/// Returns the given row order after checking that it has as many rows as the mask.
fn fitting<'a>(
    row_order: Option<&'a RowOrder>,
    mask: &Mask,
) -> Result<Option<&'a RowOrder>, PatternError> {
    match row_order {
        Some(order) if order.rows() != mask.rows() => {
            let reason = format!("the mask has {} rows", mask.rows());
            Err(PatternError::RowOrder { rows: order.rows(), reason })
        }
        order => Ok(order),
    }
}
