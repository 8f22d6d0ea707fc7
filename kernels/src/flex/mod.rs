//! Native CPU kernels on Burn's Flex backend, f32.
//!
//! Tokens become the lanes of vectors: `x` is transposed once into tiles `[feature][token]`
//! ([`tile`]), where a kept column is one contiguous row that any number of outputs can use.

#![allow(
    clippy::needless_range_loop,
    reason = "register tiles index several arrays by one counter, unrolled"
)]

mod backend;
mod decode;
mod gradient;
mod grouped;
mod look_up;
mod masked;
mod parallel;
mod rows;
mod simd;
mod store;
mod tile;
mod weight;

pub(crate) use simd::Isa;
pub(crate) use store::Store;
pub(crate) use weight::Weight;

use crate::Layout;
use parallel::Shared;

/// The kernel that [`run`] takes for a weight and a number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Weights streamed once, vectors along the rows of a group.
    Decode,
    /// Register tiles of gathered columns, vectors along tokens.
    Tiles,
    /// In-register look-up of a block's inputs, vectors along 16 rows.
    LookUp,
    /// Row after row, vectors along tokens.
    Rows,
}

impl Kernel {
    /// The choice for `n` tokens.
    pub(crate) fn choose(layout: Layout, n: usize, isa: Isa) -> Self {
        match layout {
            Layout::Grouped { vector } if decode::fits(vector, n, isa) => Self::Decode,
            Layout::Grouped { .. } => Self::Tiles,
            Layout::Balanced { block, .. } if look_up::fits(block, n, isa) => Self::LookUp,
            Layout::Balanced { .. } | Layout::Rows => Self::Rows,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Tiles => "tiles",
            Self::LookUp => "look-up",
            Self::Rows => "rows",
        }
    }
}

/// `y [n, rows] = activation(x [n, cols] · Wᵀ + bias)`.
///
/// # Panics
/// When slices do not have these lengths; the callers have checked them.
pub(crate) fn run(isa: Isa, weight: &Weight<'_>, x: &[f32], store: Store<'_>) -> Vec<f32> {
    let n = x.len() / weight.cols;
    assert_eq!(x.len(), n * weight.cols);
    assert!(store.bias.is_none_or(|bias| bias.len() == weight.rows));
    let mut y = Vec::with_capacity(n * weight.rows);
    if n > 0 {
        let out = Shared::spare(&mut y);
        match Kernel::choose(weight.layout, n, isa) {
            Kernel::Decode => decode::run(isa, weight, x, store, out),
            Kernel::LookUp => look_up::run(isa, weight, x, store, out),
            Kernel::Tiles | Kernel::Rows => tile::run(isa, weight, x, store, out),
        }
    }
    // SAFETY: every kernel writes every row of every token; zeroing first would touch all of it twice.
    unsafe { y.set_len(n * weight.rows) };
    y
}
