//! Patterns: their parameters, names, reachable sparsities, and the masks they allow.

mod check;
pub(crate) mod kinds;
mod project;
mod spelling;
mod target;

use serde::{Deserialize, Serialize};

pub use project::Projection;

use crate::PatternError;

/// Sparsity pattern: the structure that a mask must have.
///
/// ```
/// use burn_sparse_pattern::{Mask, Pattern};
///
/// let pattern: Pattern = "balanced(block=2)".parse()?;
/// assert_eq!(pattern, Pattern::balanced(2));
/// let mask = Mask::from_bytes(1, 4, &[1, 1, 0, 0])?;
/// println!("{}", pattern.check(&mask, None).unwrap_err());
/// # Ok::<(), burn_sparse_pattern::PatternError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields, remote = "Self")]
#[non_exhaustive]
pub enum Pattern {
    /// No structure: the largest scores of the whole matrix are kept.
    Unstructured {},
    /// Every block of a row keeps the same number of weights (Balanced Sparsity, AAAI'19, Algorithm 1).
    Balanced {
        /// Columns per block, 2 to 256; the balance range of the paper.
        #[serde(default = "thirty_two")]
        block: usize,
    },
    /// Balanced with small blocks, specified by its counts: `keep` of every `of` columns.
    NOfM {
        /// Kept weights per block.
        keep: usize,
        /// Columns per block, 2 to 256.
        of: usize,
    },
    /// `vector` consecutive rows share their columns (Gong et al., "VectorSparse", SC'21).
    VectorWise {
        /// Rows per vector, 2 to 256.
        #[serde(default = "thirty_two")]
        vector: usize,
        /// `true` if every group keeps the same number of columns; `false` for one threshold over the
        /// whole matrix.
        #[serde(default = "yes")]
        equal_groups: bool,
    },
    /// Vector-wise after a free row permutation (Shfl-BW, DAC'22).
    ShflBw {
        /// Rows per vector, 2 to 256.
        #[serde(default = "thirty_two")]
        vector: usize,
        /// `true` if every group keeps the same number of columns, which gives kernels a fixed trip
        /// count; `false` for one threshold over the whole matrix, which keeps slightly more of trained
        /// weights.
        #[serde(default = "yes")]
        equal_groups: bool,
    },
    /// Shfl-BW in which each row also keeps only `keep` of every `of` columns of its group (HiNM,
    /// 2024).
    Hinm {
        /// Rows per vector, 2 to 256.
        #[serde(default = "thirty_two")]
        vector: usize,
        /// Kept weights per run.
        keep: usize,
        /// Kept columns per run, 2 to 256.
        of: usize,
    },
    /// Aligned square blocks, kept or dropped as a whole.
    BlockWise {
        /// Rows and columns of a block, 2 to 256.
        #[serde(default = "thirty_two")]
        block: usize,
    },
}

fn thirty_two() -> usize {
    32
}

fn yes() -> bool {
    true
}

impl Pattern {
    /// Names of all patterns.
    pub const KINDS: [&'static str; 7] =
        ["unstructured", "balanced", "n-of-m", "vector-wise", "shfl-bw", "hinm", "block-wise"];

    /// Returns every pattern with its default parameters, in the order of [`Self::KINDS`].
    pub fn defaults() -> [Self; 7] {
        [
            Self::Unstructured {},
            Self::Balanced { block: 32 },
            Self::NOfM { keep: 2, of: 4 },
            Self::VectorWise { vector: 32, equal_groups: true },
            Self::ShflBw { vector: 32, equal_groups: true },
            Self::Hinm { vector: 32, keep: 2, of: 4 },
            Self::BlockWise { block: 32 },
        ]
    }

    /// Returns the name of the pattern, one of [`Self::KINDS`].
    pub fn kind(&self) -> &'static str {
        Self::KINDS[match self {
            Self::Unstructured {} => 0,
            Self::Balanced { .. } => 1,
            Self::NOfM { .. } => 2,
            Self::VectorWise { .. } => 3,
            Self::ShflBw { .. } => 4,
            Self::Hinm { .. } => 5,
            Self::BlockWise { .. } => 6,
        }]
    }

    /// Returns the unstructured pattern: the largest scores of the matrix.
    pub const fn unstructured() -> Self {
        Self::Unstructured {}
    }

    /// Returns Balanced, with blocks of `block` columns.
    pub const fn balanced(block: usize) -> Self {
        Self::Balanced { block }
    }

    /// Returns n-of-m: `keep` of every `of` columns.
    pub const fn n_of_m(keep: usize, of: usize) -> Self {
        Self::NOfM { keep, of }
    }

    /// Returns the vector-wise pattern, with groups of `vector` rows that keep equally many columns.
    pub const fn vector_wise(vector: usize) -> Self {
        Self::VectorWise { vector, equal_groups: true }
    }

    /// Returns Shfl-BW, with groups of `vector` rows that keep equally many columns.
    pub const fn shfl_bw(vector: usize) -> Self {
        Self::ShflBw { vector, equal_groups: true }
    }

    /// Returns the block-wise pattern: square blocks of `block` rows and columns.
    pub const fn block_wise(block: usize) -> Self {
        Self::BlockWise { block }
    }

    /// Returns HiNM: `keep` of every `of` columns inside the vectors of Shfl-BW.
    pub const fn hinm(vector: usize, keep: usize, of: usize) -> Self {
        Self::Hinm { vector, keep, of }
    }

    /// Checks that the parameters of the pattern are in range.
    ///
    /// # Errors
    /// Returns an error if a parameter is out of range.
    pub fn validate(&self) -> Result<(), PatternError> {
        let size = |parameter, found| match found {
            // In-block indices are bytes, and no kernel gains from larger vectors.
            2..=256 => Ok(()),
            _ => {
                let (pattern, expected) = (self.kind(), "2 to 256".into());
                Err(PatternError::Parameter { pattern, parameter, found, expected })
            }
        };
        match *self {
            Self::Unstructured {} => Ok(()),
            Self::Balanced { block } | Self::BlockWise { block } => size("block", block),
            Self::VectorWise { vector, .. } | Self::ShflBw { vector, .. } => size("vector", vector),
            Self::NOfM { keep, of } | Self::Hinm { keep, of, .. } => {
                if let Self::Hinm { vector, .. } = *self {
                    size("vector", vector)?;
                }
                size("of", of)?;
                if (1..of).contains(&keep) {
                    return Ok(());
                }
                let (pattern, expected) = (self.kind(), format!("1 to {}", of - 1));
                Err(PatternError::Parameter { pattern, parameter: "keep", found: keep, expected })
            }
        }
    }

    /// Returns `true` if the pattern permutes rows, so that its masks come with a row order.
    pub fn has_row_order(&self) -> bool {
        matches!(self, Self::ShflBw { .. } | Self::Hinm { .. })
    }

    /// Returns the number of rows per group, for patterns whose groups of rows share their columns.
    pub fn vector(&self) -> Option<usize> {
        match *self {
            Self::VectorWise { vector, .. }
            | Self::ShflBw { vector, .. }
            | Self::Hinm { vector, .. } => Some(vector),
            _ => None,
        }
    }
}
