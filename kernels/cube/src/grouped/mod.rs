//! Shfl-BW, vector-wise and block-wise weights, and, with `vector = 1`, rows of any shape:
//! `values [kept columns, vector]`, their ids, where groups begin, and the row at every place.

mod decode;
mod tiles;

#[cfg(feature = "offline")]
pub(crate) use decode::offline as offline_decode;
#[cfg(feature = "offline")]
pub(crate) use tiles::offline as offline_tiles;

use crate::transpose::features_major;
use crate::{Call, Operands};

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
    /// The choice for `tokens`.
    pub fn choose(vector: usize, tokens: usize) -> Self {
        // A tile of fewer rows than four leaves most of a cube idle.
        if tokens <= decode::TOKENS || vector < 4 { Self::Decode } else { Self::Tiles }
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Tiles => "tiles",
        }
    }
}

/// As [`forward`] of few tokens, in so many slices, whatever the device.
pub fn decode_in_slices(call: &Call<'_>, weight: Grouped, slices: usize) {
    decode::launch(call, weight, Some(slices));
}

/// `y [tokens, rows]` from tokens-major `x [tokens, cols]`.
pub fn forward(call: &Call<'_>, weight: Grouped) {
    match Kernel::choose(weight.vector, call.tokens) {
        Kernel::Decode => decode::launch(call, weight, None),
        Kernel::Tiles => {
            let x = features_major(call, weight.cols);
            let operands = Operands { x, ..call.operands.clone() };
            tiles::launch(&Call { operands: &operands, ..*call }, weight);
        }
    }
}
