//! Sparsity patterns on host matrices: from scores to a mask, and from a mask to a packed layout.
//!
//! Weights are always row-major matrices `[rows = outputs, cols = reduction]`. This crate depends on no
//! tensor library; it is the part of burn-sparse that a reader of packed files needs.
//!
//! 1. [`Scores`] rank the weights; [`Pattern::project`] finds the best mask that the pattern allows.
//! 2. [`Pattern::check`] checks that a [`Mask`] obeys its pattern, and reports the first violation.
//! 3. [`Distribution`] distributes one overall sparsity over several layers.
//! 4. [`Packed::pack`] stores only the kept weights; [`Packed::unpack`] restores them bitwise identically.
//! 5. [`mod@format`] specifies, writes and reads the file format of packed parameters.
//!
//! The patterns are those of Balanced Sparsity (Yao et al., AAAI'19) and Shfl-BW (Huang et al.,
//! DAC'22), and those that they are compared with.
//!
//! ```
//! use burn_sparse_pattern::{Pattern, Scores, Search};
//!
//! // Balanced Sparsity, slide 6: a row of 16 in 4 blocks of 4, half of each block is kept.
//! let row = [
//!     0.8_f32, -0.1, 0.2, 1.5, 1.0, 0.3, -0.4, -1.4, 0.7, 2.0, 0.9, -0.5, 1.2, -1.3, 2.1, 0.2,
//! ];
//! let magnitudes = row.map(f32::abs);
//! let pattern = Pattern::Balanced { block: 4 };
//! let kept = pattern.project(&Scores::new(1, 16, &magnitudes)?, 0.5, &Search::default())?;
//! let kept: Vec<f32> = (0..16).filter(|&c| kept.mask.get(0, c)).map(|c| row[c]).collect();
//! assert_eq!(kept, [0.8, 1.5, 1.0, -1.4, 2.0, 0.9, -1.3, 2.1]);
//! # Ok::<(), burn_sparse_pattern::PatternError>(())
//! ```

mod count;
mod distribution;
mod error;
pub mod format;
mod grouping;
mod histogram;
mod mask;
mod packed;
mod pattern;
mod row_order;
mod scores;
mod shape;

pub use distribution::{Axes, Distribution};
pub use error::PatternError;
pub use grouping::{Search, Start};
pub use histogram::Histogram;
pub use mask::Mask;
pub use packed::{BalancedPacked, GroupedPacked, HierarchicalPacked, Packed, UnstructuredPacked};
pub use pattern::{Pattern, Projection};
pub use row_order::RowOrder;
pub use scores::{Retained, Scores};
