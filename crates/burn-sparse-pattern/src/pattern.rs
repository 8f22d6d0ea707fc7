use serde::{Deserialize, Serialize};

use crate::count::Unit;
use crate::grouping::{self, Search};
use crate::patterns::hinm::{self, Inner};
use crate::patterns::{balanced, block_wise, unstructured, vector_wise};
use crate::{Mask, PatternError, RowOrder, Scores};

/// The allowed shapes of a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// The largest scores of the matrix.
    Unstructured {},
    /// Every block of a row keeps the same count (Balanced Sparsity, AAAI'19, Algorithm 1).
    Balanced {
        /// Columns of a block, 2 to 256; the paper's balance range.
        #[serde(default = "thirty_two")]
        block: usize,
    },
    /// Balanced with small blocks, spelled with its counts: `keep` of every `of` columns.
    NOfM {
        /// Kept weights of a block.
        keep: usize,
        /// Columns of a block, 2 to 256.
        of: usize,
    },
    /// `vector` consecutive rows share their columns (Gong et al., "VectorSparse", SC'21).
    VectorWise {
        /// Rows of a vector, 2 to 256.
        #[serde(default = "thirty_two")]
        vector: usize,
        /// Every group keeps the same number of columns; otherwise one threshold for the matrix.
        #[serde(default = "yes")]
        equal_groups: bool,
    },
    /// Vector-wise after a free row order (Shfl-BW, DAC'22).
    ShflBw {
        /// Rows of a vector, 2 to 256.
        #[serde(default = "thirty_two")]
        vector: usize,
        /// Every group keeps the same number of columns, which gives kernels a fixed trip count;
        /// otherwise one threshold for the matrix, which keeps a little more of trained weights.
        #[serde(default = "yes")]
        equal_groups: bool,
    },
    /// Shfl-BW whose kept vectors hold `keep` of every `of` columns in each row (HiNM, 2024).
    Hinm {
        /// Rows of a vector, 2 to 256.
        #[serde(default = "thirty_two")]
        vector: usize,
        /// Kept weights of a run.
        keep: usize,
        /// Kept columns of a run, 2 to 256.
        of: usize,
    },
    /// Aligned square blocks, kept or dropped whole.
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

/// What [`Pattern::project`] found.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    /// The kept weights.
    pub mask: Mask,
    /// The row order that makes groups adjacent; only `shfl-bw` and `hinm` have one.
    pub row_order: Option<RowOrder>,
}

impl Pattern {
    /// The names of all patterns.
    pub const KINDS: [&'static str; 7] =
        ["unstructured", "balanced", "n-of-m", "vector-wise", "shfl-bw", "hinm", "block-wise"];

    /// Every pattern with its default parameters, in the order of [`Self::KINDS`].
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

    /// The pattern's name.
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

    /// Checks the pattern's own parameters.
    ///
    /// # Errors
    /// When one is out of range.
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

    /// The sparsity that the pattern's own fields fix, if they do.
    pub fn fixed_sparsity(&self) -> Option<f64> {
        match *self {
            Self::NOfM { keep, of } => Some(1.0 - keep as f64 / of as f64),
            _ => None,
        }
    }

    /// Refuses a target that keeps nothing or everything, and answers with the exact number of zeros
    /// it gives a `rows x cols` matrix.
    ///
    /// # Errors
    /// Names the nearest valid sparsities.
    pub fn target_zeros(
        &self,
        rows: usize,
        cols: usize,
        sparsity: f64,
    ) -> Result<usize, PatternError> {
        crate::scores::check_shape(rows, cols)?;
        self.validate()?;
        let kept = self.unit(rows, cols).target(sparsity)?;
        let kept = match *self {
            Self::Unstructured {} => kept,
            Self::Balanced { block } | Self::NOfM { of: block, .. } => {
                rows * balanced::Counts::new(cols, block, sparsity, kept).row()
            }
            Self::VectorWise { vector, equal_groups } | Self::ShflBw { vector, equal_groups } => {
                match rows.div_ceil(vector) {
                    // Every row of every group, the short last one included, keeps as many columns.
                    _ if equal_groups => rows * kept,
                    // Which groups keep how many depends on the scores; a short last group may keep
                    // more or less than its share.
                    groups => (rows * kept) / groups,
                }
            }
            Self::Hinm { keep, of, .. } => rows * Inner { keep, of }.target(cols, sparsity)? * keep,
            // Border blocks are smaller: exact only where the block divides the matrix.
            Self::BlockWise { block } => {
                (rows * cols * kept) / (rows.div_ceil(block) * cols.div_ceil(block))
            }
        };
        Ok(rows * cols - kept)
    }

    /// The sparsity nearest to a wish at which a `rows x cols` mask obeys the pattern and keeps something;
    /// 0, for a dense layer, where the wish rounds to keeping all. Where a layer's share comes from a
    /// [`Distribution`](crate::Distribution), it is not the user's error that it rounds to a limit.
    ///
    /// # Errors
    /// When a parameter is out of range, or the matrix is too small for the pattern.
    pub fn nearest_sparsity(
        &self,
        rows: usize,
        cols: usize,
        wish: f64,
    ) -> Result<f64, PatternError> {
        crate::scores::check_shape(rows, cols)?;
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
                // An error for a row shorter than a run.
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

    /// Whether every mask at a target has exactly [`Self::target_zeros`] zeros; otherwise units of
    /// different size are kept or dropped by their scores, and the count is nearly that.
    pub fn counts_exactly(&self) -> bool {
        match *self {
            Self::VectorWise { equal_groups, .. } | Self::ShflBw { equal_groups, .. } => {
                equal_groups
            }
            Self::BlockWise { .. } => false,
            _ => true,
        }
    }

    /// Whether rows move: masks of this pattern come with a row order.
    pub fn has_row_order(&self) -> bool {
        matches!(self, Self::ShflBw { .. } | Self::Hinm { .. })
    }

    /// The rows of a group, where rows come in groups that share their columns.
    pub fn vector(&self) -> Option<usize> {
        match *self {
            Self::VectorWise { vector, .. }
            | Self::ShflBw { vector, .. }
            | Self::Hinm { vector, .. } => Some(vector),
            _ => None,
        }
    }

    /// The unit that keeps a whole count.
    fn unit(&self, rows: usize, cols: usize) -> Unit {
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

    /// The mask of this pattern that keeps the most score at `sparsity`: exact for all patterns but
    /// `shfl-bw` and `hinm`, whose row order is searched as [`Search`] says, and whose inner pattern is
    /// applied to the best vectors.
    ///
    /// Counted units keep the nearest whole count; equal scores keep the lower index.
    ///
    /// # Errors
    /// When the sparsity keeps nothing, or a parameter is out of range.
    pub fn project(
        &self,
        scores: &Scores<'_>,
        sparsity: f64,
        search: &Search<'_>,
    ) -> Result<Projection, PatternError> {
        self.validate()?;
        let kept = self.unit(scores.rows(), scores.cols()).kept(sparsity)?;
        let mask = match *self {
            Self::Unstructured {} => unstructured::project(scores, kept),
            Self::Balanced { block } | Self::NOfM { of: block, .. } => {
                let counts = balanced::Counts::new(scores.cols(), block, sparsity, kept);
                balanced::project(scores, &counts)
            }
            Self::BlockWise { block } => block_wise::project(scores, block, kept),
            Self::VectorWise { vector, equal_groups } => {
                let order = RowOrder::identity(scores.rows());
                let keep = vector_wise::Keep::new(equal_groups, kept);
                vector_wise::project(scores, vector, keep, &order)
            }
            Self::ShflBw { vector, equal_groups } => {
                let keep = vector_wise::Keep::new(equal_groups, kept);
                let order = grouping::search(scores, vector, keep, search)?;
                let mask = vector_wise::project(scores, vector, keep, &order);
                return Ok(Projection { mask, row_order: Some(order) });
            }
            Self::Hinm { vector, keep, of } => {
                // Which vectors are kept decides; what is dropped inside them is close to a fixed share
                // of each, so the order is searched for whole vectors.
                let inner = Inner { keep, of };
                let columns = (inner.runs(scores.cols(), sparsity)? * of).min(scores.cols());
                let kept = vector_wise::Keep::PerGroup(columns);
                let order = grouping::search(scores, vector, kept, search)?;
                let mask = hinm::project(scores, vector, inner, sparsity, &order)?;
                return Ok(Projection { mask, row_order: Some(order) });
            }
        };
        Ok(Projection { mask, row_order: None })
    }

    /// Proves that `mask` obeys the pattern.
    ///
    /// `shfl-bw` takes its row order; without one, a fitting order is looked for. `hinm` needs it.
    ///
    /// # Errors
    /// Names the first violation: where, expected, found.
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
                    // Rows of a group keep different weights: nothing in the mask tells them apart.
                    let expected = "a row order, which the mask alone does not tell".into();
                    violation("the whole matrix".into(), expected, "none".into())
                })?;
                hinm::check(mask, vector, Inner { keep, of }, order)
            }
        };
        found.map_err(|v| violation(v.place, v.expected, v.found))
    }
}

/// The given row order, if it is one of the mask's rows.
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
