use std::collections::BTreeMap;

use burn_sparse_cpu::{CpuKernel, padded};
use serde::{Deserialize, Serialize};

use crate::{Layout, PackedShape};

/// Kernel chosen for a call, with the predicted times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chosen {
    pub(crate) kernel: CpuKernel,
    /// Predicted seconds of a call.
    pub(crate) sparse: f64,
    /// Predicted seconds of the dense side.
    pub(crate) dense: f64,
}

/// Name of the curve of the dense side: Burn's product, or our convolution.
pub(crate) const DENSE: &str = "dense";

/// Maximum size in bytes of a weight for which the measured coefficients hold: all of it stays in a cache between two calls.
pub(crate) const CACHED: usize = 4 << 20;

/// Size in bytes of a dense weight up to which the time of a product grows in proportion to it. Beyond, Burn's products of a
/// few tokens slow down: on a Zen 3, two tokens take 108 µs with 768×768 weights and 547 µs with 1000×1000, in one thread.
const PROPORTIONAL: usize = 9 << 18;

/// Share of the shorter of multiplying and reading from memory that tiles do not hide behind the longer one: up to 0.3 on two
/// cores of a Zen 3.
const NOT_HIDDEN: f64 = 0.3;

/// Vectors whose groups are measured separately, each with the minimum number of rows, in tiles and in decode: shorter
/// ones fill fewer registers of a tile, and in decode only a part of one.
pub(crate) const VECTORS: [(usize, &str, &str); 3] = [
    (4, "grouped-4-tiles", "grouped-4-decode"),
    (8, "grouped-8-tiles", "grouped-8-decode"),
    (32, "grouped-32-tiles", "grouped-32-decode"),
];

/// Blocks whose look-up is measured separately, each with the maximum number of columns: the longest of each kind of
/// look-up table.
pub(crate) const BLOCKS: [(usize, &str); 4] = [
    (32, "balanced-32-look-up"),
    (64, "balanced-64-look-up"),
    (128, "balanced-128-look-up"),
    (256, "balanced-256-look-up"),
];

/// Returns the name of the curve of a kernel on a layout.
pub(crate) fn subject(kernel: CpuKernel, layout: Layout) -> &'static str {
    match (layout, kernel) {
        (Layout::Grouped { vector }, kernel) => {
            let (_, tiles, decode) =
                VECTORS.iter().rev().find(|(from, ..)| *from <= vector).unwrap_or(&VECTORS[0]);
            if kernel == CpuKernel::Decode { decode } else { tiles }
        }
        (Layout::Balanced { block, .. }, CpuKernel::LookUp) => {
            BLOCKS.iter().find(|(up_to, _)| block <= *up_to).unwrap_or(&BLOCKS[3]).1
        }
        (Layout::Balanced { .. }, _) => "balanced-rows",
        (Layout::Rows, CpuKernel::Gather) => "unstructured-gather",
        (Layout::Rows, _) => "unstructured-rows",
    }
}

/// Coefficients of every kernel and of the dense side, for some numbers of tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Curves {
    /// Numbers of tokens, or of output pixels, in ascending order.
    pub(crate) tokens: Vec<usize>,
    /// Nanoseconds per [term](terms), for each of `tokens`.
    pub(crate) nanoseconds: BTreeMap<String, Vec<[f64; 4]>>,
}

impl Curves {
    /// Chooses the fastest of these kernels; each byte that no cache keeps takes `memory` nanoseconds.
    pub(crate) fn choose(
        &self,
        candidates: impl Iterator<Item = CpuKernel>,
        matrix: &PackedShape,
        n: usize,
        memory: f64,
    ) -> Chosen {
        let predict = |subject| {
            let bytes = bytes(matrix, subject).saturating_sub(CACHED);
            (self.predict(subject, matrix, n), 1e-9 * memory * bytes as f64)
        };
        let (dense, from_memory) = predict(DENSE);
        let dense = dense + from_memory;
        let candidates = candidates.map(|kernel| {
            let (sparse, from_memory) = predict(subject(kernel, matrix.layout));
            // Tiles multiply every weight with a vector of tokens, and read the next ones meanwhile. Kernels for few tokens
            // do little else than reading. A single token in tiles takes longer than two where columns are many.
            let sparse = match kernel.takes_tiles() && n > 1 {
                true => sparse.max(from_memory) + NOT_HIDDEN * sparse.min(from_memory),
                false => sparse + from_memory,
            };
            Chosen { kernel, sparse, dense }
        });
        candidates.min_by(|a, b| a.sparse.total_cmp(&b.sparse)).expect("there is always a kernel")
    }

    /// Predicts the seconds of a call whose weight is in a cache; infinity for a subject that was not measured.
    pub(crate) fn predict(&self, subject: &str, matrix: &PackedShape, n: usize) -> f64 {
        let Some(curve) = self.nanoseconds.get(subject).filter(|curve| !curve.is_empty()) else {
            return f64::INFINITY;
        };
        let terms = terms(matrix, subject);
        let at = |i: usize| 1e-9 * (0..4).map(|t| curve[i][t] * terms[t]).sum::<f64>();
        let tokens = &self.tokens[..curve.len().min(self.tokens.len())];
        let above = tokens.partition_point(|&measured| measured < n);
        match above {
            0 => at(0),
            _ if above == tokens.len() => at(above - 1) * n as f64 / tokens[above - 1] as f64,
            _ => {
                let (low, high) = (tokens[above - 1], tokens[above]);
                let share = (n - low) as f64 / (high - low) as f64;
                at(above - 1) * (1.0 - share) + at(above) * share
            }
        }
    }
}

/// Returns the size of the weight in bytes, with values in f32.
pub(crate) fn bytes(matrix: &PackedShape, subject: &str) -> usize {
    match matrix.layout {
        _ if subject == DENSE => 4 * matrix.rows * matrix.cols,
        Layout::Grouped { vector } => 4 * (matrix.stored + matrix.stored / vector),
        Layout::Balanced { .. } => 5 * matrix.stored,
        Layout::Rows => 8 * matrix.stored,
    }
}

/// Returns the factors of the coefficients of a subject: one call, kept weights, cells (on the dense side, weights past the
/// [`PROPORTIONAL`] size), and edges.
pub(crate) fn terms(matrix: &PackedShape, subject: &str) -> [f64; 4] {
    let all = (matrix.rows * matrix.cols) as f64;
    let cells = match matrix.layout {
        _ if subject == DENSE => bytes(matrix, DENSE).saturating_sub(PROPORTIONAL) as f64 / 4.0,
        Layout::Grouped { vector } => all / vector as f64,
        Layout::Balanced { block, .. } => (matrix.rows * matrix.cols.div_ceil(block)) as f64,
        Layout::Rows => all,
    };
    let kept = if subject == DENSE { all } else { matrix.stored as f64 };
    let edges = match matrix.layout {
        Layout::Balanced { block, .. } if subject != DENSE => {
            matrix.rows + padded(matrix.cols, block)
        }
        // Decode reads each input where it is, but writes rows one by one.
        Layout::Grouped { .. } if VECTORS.iter().any(|(.., decode)| *decode == subject) => {
            matrix.rows
        }
        _ => matrix.rows + matrix.cols,
    };
    [1.0, kept, cells, edges as f64]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(rows: usize, cols: usize, kept: usize) -> PackedShape {
        PackedShape::new(rows, cols, Layout::Rows, kept)
    }

    #[test]
    fn time_between_measured_tokens_lies_on_a_line_and_grows_in_proportion_past_them() {
        let curve = vec![[10.0, 0.0, 0.0, 0.0], [30.0, 0.0, 0.0, 0.0]];
        let curves = Curves { tokens: vec![4, 8], nanoseconds: [(DENSE.into(), curve)].into() };
        let matrix = matrix(2, 2, 1);
        let seconds = [1, 4, 5, 6, 8, 16].map(|n| curves.predict(DENSE, &matrix, n) * 1e9);
        for (found, expected) in seconds.into_iter().zip([10.0, 10.0, 15.0, 20.0, 30.0, 60.0]) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        assert_eq!(curves.predict("unheard-of", &matrix, 1), f64::INFINITY);
    }

    #[test]
    fn dense_weights_past_the_proportional_size_have_a_cost_of_their_own() {
        let curve = vec![[0.0, 1.0, 10.0, 0.0]];
        let curves = Curves { tokens: vec![2], nanoseconds: [(DENSE.into(), curve)].into() };
        for (side, expected) in
            [(768, 768.0 * 768.0), (1024, 11.0 * 1024.0 * 1024.0 - 10.0 * 768.0 * 768.0)]
        {
            let seconds = curves.predict(DENSE, &matrix(side, side, 1), 2);
            assert!((seconds * 1e9 - expected).abs() < 1e-3, "{seconds}");
        }
    }

    #[test]
    fn decode_costs_more_for_many_rows_than_for_many_columns() {
        let edges = |rows, cols, subject| {
            terms(&PackedShape::new(rows, cols, Layout::Grouped { vector: 8 }, 64), subject)[3]
        };
        assert_eq!(edges(1536, 32, "grouped-8-decode"), 1536.0);
        assert_eq!(edges(32, 1536, "grouped-8-decode"), 32.0);
        assert_eq!(edges(32, 1536, "grouped-8-tiles"), 1568.0);
    }

    #[test]
    fn a_block_that_the_columns_do_not_fill_costs_as_much_as_a_whole_one() {
        let cells = |cols, block| {
            let layout = Layout::Balanced { block, kept: 2 };
            terms(&PackedShape::new(15, cols, layout, 60), "balanced-rows")[2]
        };
        assert_eq!([cells(31, 100), cells(100, 100), cells(101, 100)], [15.0, 15.0, 30.0]);
    }

    #[test]
    fn what_does_not_fit_the_cache_takes_its_time_from_memory_and_tiles_hide_most_of_it() {
        let subjects = [DENSE, "unstructured-gather", "unstructured-rows"];
        let curve = vec![[10.0, 0.0, 0.0, 0.0]];
        let curves = subjects.map(|subject| (subject.into(), curve.clone()));
        let curves = Curves { tokens: vec![2], nanoseconds: curves.into() };
        let large = matrix(1025, 1024, 1024 * 512 + 3);
        // Bytes past the cache: a row of 1024 floats, and three weights of eight bytes each including their indices.
        for (memory, kernel, n, expected) in [
            (0.5, CpuKernel::Gather, 2, 10.0 + 12.0),
            (0.5, CpuKernel::Rows, 1, 10.0 + 12.0),
            (0.5, CpuKernel::Rows, 2, 12.0 + 3.0),
            (0.25, CpuKernel::Rows, 2, 10.0 + 1.8),
        ] {
            let chosen = curves.choose([kernel].into_iter(), &large, n, memory);
            assert!((chosen.dense * 1e9 - (10.0 + 4096.0 * memory)).abs() < 1e-6);
            assert!((chosen.sparse * 1e9 - expected).abs() < 1e-6, "{kernel:?} {chosen:?}");
        }
    }
}
