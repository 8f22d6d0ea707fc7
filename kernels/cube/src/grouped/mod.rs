//! Shfl-BW, vector-wise and block-wise weights, and, with `vector = 1`, rows of any shape:
//! `values [kept columns, vector]`, their ids, where groups begin, and the row at every place.

mod decode;
mod tiles;

#[cfg(feature = "offline")]
pub(crate) use decode::offline as offline_decode;
#[cfg(feature = "offline")]
pub(crate) use tiles::offline as offline_tiles;

use crate::candidates::candidates;
use crate::{Call, Major, transpose};

/// A packed weight's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grouped {
    /// Outputs.
    pub rows: usize,
    /// Reduction.
    pub cols: usize,
    /// Rows of a group, at most 256.
    pub vector: usize,
}

/// The kernels of this family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Weights streamed once, lanes along the rows of a group.
    Decode,
    /// Shared tiles of gathered columns, lanes along tokens.
    Tiles,
}

impl Kernel {
    /// Those worth measuring for `tokens`, first the one to run unmeasured; never none.
    pub fn candidates(vector: usize, tokens: usize) -> Vec<Self> {
        match vector {
            // A tile of fewer rows than four leaves most of a cube idle.
            0..4 => vec![Self::Decode],
            _ => candidates([Self::Decode, Self::Tiles], decode::TOKENS, tokens),
        }
    }

    /// Whether it takes and gives activations features-major without a transposition.
    pub fn is_features_major(self) -> bool {
        self == Self::Tiles
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Tiles => "tiles",
        }
    }
}

/// `y` from `x`.
///
/// Where the groups alone do not fill the device, [`Kernel::Decode`] slices their kept columns; `slices` says
/// into how many instead.
///
/// # Panics
/// When activations are not tokens-major for [`Kernel::Decode`].
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
