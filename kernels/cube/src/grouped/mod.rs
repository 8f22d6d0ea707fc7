//! Shfl-BW, vector-wise and block-wise weights. The operands are
//! `values [kept columns, vector]`, their column ids, the offsets at which groups begin, and the row at every
//! place.

mod decode;
mod tiles;

#[cfg(feature = "offline")]
pub(crate) use decode::offline as offline_decode;
#[cfg(feature = "offline")]
pub(crate) use tiles::offline as offline_tiles;

use crate::candidates::candidates;
use crate::{Call, Major, transpose};

/// Shape of a packed weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grouped {
    /// Number of rows (outputs).
    pub rows: usize,
    /// Number of columns (the reduction).
    pub cols: usize,
    /// Rows per group, at most 256.
    pub vector: usize,
}

/// Kernels of this family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Streams the weights once, with lanes along the rows of a group.
    Decode,
    /// Stages gathered columns in shared tiles, with lanes along tokens.
    Tiles,
}

impl Kernel {
    /// Returns the kernels worth measuring for `tokens`, starting with the one to run without measurement; never
    /// empty.
    pub fn candidates(vector: usize, tokens: usize) -> Vec<Self> {
        match vector {
            // A tile of fewer than four rows leaves most of a cube idle.
            0..4 => vec![Self::Decode],
            _ => candidates([Self::Decode, Self::Tiles], decode::TOKENS, tokens),
        }
    }

    /// Returns `true` if the kernel reads and writes feature-major activations without a transposition.
    pub fn is_features_major(self) -> bool {
        self == Self::Tiles
    }

    /// Returns the kernel's name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Tiles => "tiles",
        }
    }
}

/// Computes `y` from `x`.
///
/// If the groups alone do not fill the device, [`Kernel::Decode`] splits their kept columns into slices; `slices`
/// overrides the number of slices.
///
/// # Panics
/// Panics if activations are not token-major for [`Kernel::Decode`].
pub fn forward(call: &Call<'_>, weight: Grouped, kernel: Kernel, slices: Option<usize>) {
    match kernel {
        Kernel::Decode => {
            assert_eq!([call.x_major, call.y_major], [Major::Tokens; 2]);
            decode::launch(call, weight, slices);
        }
        Kernel::Tiles => {
            let x = transpose::input(call, weight.cols);
            transpose::output(call, weight.rows, |y| tiles::launch(call, &x, y, weight));
        }
    }
}
