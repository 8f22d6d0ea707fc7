//! Native CPU kernels on Burn's Flex backend, f32.
//!
//! Tokens become the lanes of vectors: `x` is transposed once into tiles `[feature][token]`
//! ([`tile`]), where a kept column is one contiguous row that any number of outputs can use.

mod backend;
mod decode;
mod gradient;
mod grouped;
mod look_up;
mod masked;
mod parallel;
mod rows;
mod simd;
mod tile;
mod weight;

pub(crate) use simd::Isa;
pub(crate) use weight::Weight;

use crate::{Activation, Layout};

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
pub(crate) fn run(
    isa: Isa,
    weight: &Weight<'_>,
    x: &[f32],
    bias: Option<&[f32]>,
    activation: Activation,
    y: &mut [f32],
) {
    let n = x.len() / weight.cols;
    assert_eq!((x.len(), y.len()), (n * weight.cols, n * weight.rows));
    assert!(bias.is_none_or(|bias| bias.len() == weight.rows));
    if n == 0 {
        return;
    }
    match Kernel::choose(weight.layout, n, isa) {
        Kernel::Decode => decode::run(isa, weight, x, bias, activation, y),
        Kernel::LookUp => look_up::run(isa, weight, x, bias, activation, y),
        Kernel::Tiles | Kernel::Rows => tile::run(isa, weight, x, bias, activation, y),
    }
}

pub(crate) fn activate(activation: Activation, value: f32) -> f32 {
    match activation {
        Activation::None => value,
        Activation::Relu => value.max(0.0),
    }
}
