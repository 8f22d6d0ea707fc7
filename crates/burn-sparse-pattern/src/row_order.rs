use std::collections::BTreeMap;

use crate::{Mask, PatternError};

/// Permutation that makes the rows of each group adjacent: entry `i` is the original row at position
/// (place) `i`, and group `g` holds positions `g * V .. (g + 1) * V`.
///
/// ```
/// use burn_sparse_pattern::RowOrder;
///
/// let order = RowOrder::new(vec![2, 0, 3, 1])?;
/// let groups: Vec<&[u32]> = order.groups(2).collect();
/// assert_eq!(groups, [[2, 0], [3, 1]]);
/// # Ok::<(), burn_sparse_pattern::PatternError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowOrder(Vec<u32>);

impl RowOrder {
    /// Creates a row order from a permutation of `0..rows`.
    ///
    /// # Errors
    /// Returns an error if an entry is out of range or repeated.
    pub fn new(order: Vec<u32>) -> Result<Self, PatternError> {
        let rows = order.len();
        let mut seen = vec![false; rows];
        for (place, &row) in order.iter().enumerate() {
            let reason = match seen.get_mut(row as usize) {
                None => format!("place {place} names row {row}"),
                Some(true) => format!("place {place} names row {row} again"),
                Some(first) => {
                    *first = true;
                    continue;
                }
            };
            return Err(PatternError::RowOrder { rows, reason });
        }
        Ok(Self(order))
    }

    /// Creates a row order from a vector that is a permutation by construction.
    pub(crate) fn trusted(order: Vec<u32>) -> Self {
        debug_assert!(Self::new(order.clone()).is_ok());
        Self(order)
    }

    /// Returns the order that leaves every row in place.
    pub fn identity(rows: usize) -> Self {
        Self((0..rows as u32).collect())
    }

    /// Returns the original row at each position.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    /// Returns the position of each original row.
    pub(crate) fn places(&self) -> Vec<u32> {
        let mut places = vec![0; self.0.len()];
        for (place, &row) in (0..).zip(&self.0) {
            places[row as usize] = place;
        }
        places
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.0.len()
    }

    /// Returns the groups of `vector` rows; the last group may be shorter.
    pub fn groups(&self, vector: usize) -> impl Iterator<Item = &[u32]> {
        self.0.chunks(vector)
    }

    /// Finds an order that groups rows with equal masks, `vector` at a time, with rows ascending within
    /// a group.
    ///
    /// Intended for masks that come without their row order. Returns `None` if no such grouping exists.
    pub fn recover(mask: &Mask, vector: usize) -> Option<Self> {
        let mut classes: BTreeMap<&[u64], Vec<u32>> = BTreeMap::new();
        for row in 0..mask.rows() {
            classes.entry(mask.row(row)).or_default().push(row as u32);
        }
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut short = None;
        for rows in classes.into_values() {
            for group in rows.chunks(vector) {
                if group.len() == vector {
                    groups.push(group.to_vec());
                } else if short.replace(group.to_vec()).is_some() {
                    return None;
                }
            }
        }
        groups.sort();
        groups.extend(short);
        Some(Self(groups.concat()))
    }
}
