use std::time::Instant;

use burn_sparse_pattern::format::{FloatType, PackedEntry, View};
use burn_sparse_pattern::{
    Histogram, Mask, Packed, Pattern, PatternError, Retained, RowOrder, Scores, Search,
};
use serde::{Deserialize, Serialize};

use super::options::{OneShot, Orientation};

/// Report on a pruned tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PrunedTensor {
    /// Name of the tensor.
    pub name: String,
    /// Number of outputs.
    pub rows: usize,
    /// Size of the reduction.
    pub cols: usize,
    /// Pattern of the mask, or `dense, by its share`.
    pub pattern: String,
    /// Share of zeros of the mask.
    pub sparsity: f64,
    /// Retained share of `Σ|w|`.
    pub retained_l1: f64,
    /// Retained share of `Σw²`.
    pub retained_l2: f64,
    /// Seconds for scores, search, and masking.
    pub seconds: f64,
}

/// Returns the matrix view of a tensor with this shape: 2 axes are a linear weight, 4 a convolution.
pub(super) fn view(shape: &[usize], orientation: Orientation) -> Option<View> {
    match (shape, orientation) {
        // Nothing to prune.
        (shape, _) if shape.contains(&0) => None,
        // A row-major `[out, in]` is the flattened convolution of a 1x1 kernel.
        (&[rows, channels], Orientation::PyTorch) => {
            Some(View::Conv { rows, channels, kernel: vec![] })
        }
        (&[cols, rows], Orientation::Burn) => Some(View::Linear { rows, cols }),
        (&[rows, channels, ref kernel @ ..], _) if kernel.len() == 2 => {
            Some(View::Conv { rows, channels, kernel: kernel.to_vec() })
        }
        _ => None,
    }
}

/// Mask found for a tensor.
pub(super) struct Found {
    weights: Vec<f32>,
    mask: Mask,
    row_order: Option<RowOrder>,
    pub(super) report: PrunedTensor,
}

impl Found {
    /// Searches a mask for the stored values of a tensor.
    pub(super) fn search(
        name: &str,
        stored: &[f32],
        view: &View,
        task: &OneShot,
        sparsity: f64,
    ) -> Result<Self, PatternError> {
        let started = Instant::now();
        let (rows, cols, pattern) = (view.rows(), view.cols(), task.pattern);
        pattern.target_zeros(rows, cols, sparsity)?;
        let weights = view.to_matrix(stored);
        let scores: Vec<f32> = weights.iter().map(|weight| weight.abs()).collect();
        let search = Search { seed: task.seed, budget: task.budget, ..Search::default() };
        let found = pattern.project(&Scores::new(rows, cols, &scores)?, sparsity, &search)?;
        let (mask, row_order) = (found.mask, found.row_order);
        pattern.check(&mask, row_order.as_ref())?;
        let retained = Retained::measure(&weights, &mask)?;
        let report = PrunedTensor {
            name: name.into(),
            rows,
            cols,
            pattern: pattern.to_string(),
            sparsity: mask.sparsity(),
            retained_l1: retained.l1,
            retained_l2: retained.l2,
            seconds: started.elapsed().as_secs_f64(),
        };
        Ok(Self { weights, mask, row_order, report })
    }

    /// Zeroes dropped weights in place in the tensor's bytes; kept values stay bitwise identical.
    pub(super) fn zero(&self, view: &View, bytes: &mut [u8]) {
        let width = bytes.len() / self.weights.len();
        let kept = view.to_stored(&self.mask.to_bytes());
        for (value, keep) in bytes.chunks_exact_mut(width).zip(kept) {
            if keep == 0 {
                value.fill(0);
            }
        }
    }

    /// Packs the kept weights, in the tensor's own type and orientation.
    pub(super) fn pack(
        &self,
        view: &View,
        pattern: Pattern,
        float: FloatType,
    ) -> Result<PackedEntry, PatternError> {
        let packed = Packed::pack(&pattern, &self.weights, &self.mask, self.row_order.as_ref())?;
        let (layer, view) = (String::new(), view.clone());
        Ok(PackedEntry { layer, view, pattern, packed, float, scales: None })
    }
}

/// Returns the report on a tensor that is not changed.
pub(super) fn untouched(name: &str, view: &View) -> PrunedTensor {
    PrunedTensor {
        name: name.into(),
        rows: view.rows(),
        cols: view.cols(),
        pattern: "dense, by its share".into(),
        sparsity: 0.0,
        retained_l1: 1.0,
        retained_l2: 1.0,
        seconds: 0.0,
    }
}

/// Returns the histogram of a tensor's magnitudes.
pub(super) fn histogram(mut scores: Vec<f32>) -> Histogram {
    scores.iter_mut().for_each(|score| *score = score.abs());
    Histogram::of(&scores)
}
