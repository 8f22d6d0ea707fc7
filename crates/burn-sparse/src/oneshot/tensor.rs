use std::time::Instant;

use burn_sparse_pattern::format::{FloatType, View};
use burn_sparse_pattern::{Histogram, PatternError, Retained, Scores, Search};
use safetensors::Dtype;
use serde::{Deserialize, Serialize};

use super::OneShot;

/// Which axis of a matrix holds the outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Orientation {
    /// `[out, in]`, as PyTorch stores `Linear`.
    #[default]
    PyTorch,
    /// `[in, out]`, as Burn does.
    Burn,
}

/// What pruning one tensor did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PrunedTensor {
    /// Its name.
    pub name: String,
    /// Outputs.
    pub rows: usize,
    /// Reduction.
    pub cols: usize,
    /// The pattern of its mask, or that its share of the sparsity leaves it dense.
    pub pattern: String,
    /// The share of zeros of its mask.
    pub sparsity: f64,
    /// The kept share of `Σ|w|`.
    pub retained_l1: f64,
    /// The kept share of `Σw²`.
    pub retained_l2: f64,
    /// Seconds for scores, search and masking.
    pub seconds: f64,
}

/// How a tensor of this shape is seen as a matrix: 2 axes a linear weight, 4 a convolution.
pub(super) fn view(shape: &[usize], orientation: Orientation) -> Option<View> {
    match (shape, orientation) {
        // There is nothing in it to prune.
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

/// Zeroes what the pattern drops, in place in the tensor's bytes; kept values stay as they are, to the
/// bit.
pub(super) fn prune(
    name: &str,
    bytes: &mut [u8],
    dtype: Dtype,
    view: &View,
    task: &OneShot,
    sparsity: f64,
) -> Result<PrunedTensor, PatternError> {
    let started = Instant::now();
    let (rows, cols, pattern) = (view.rows(), view.cols(), task.pattern);
    pattern.target_zeros(rows, cols, sparsity)?;
    let weights = view.to_matrix(&floats(bytes, dtype));
    let scores: Vec<f32> = weights.iter().map(|weight| weight.abs()).collect();
    let search = Search { seed: task.seed, budget: task.budget, ..Search::default() };
    let found = pattern.project(&Scores::new(rows, cols, &scores)?, sparsity, &search)?;
    pattern.check(&found.mask, found.row_order.as_ref())?;
    let retained = Retained::measure(&weights, &found.mask)?;
    let width = bytes.len() / (rows * cols);
    for (value, keep) in bytes.chunks_exact_mut(width).zip(view.to_stored(&found.mask.to_bytes())) {
        if keep == 0 {
            value.fill(0);
        }
    }
    Ok(PrunedTensor {
        name: name.into(),
        rows,
        cols,
        pattern: pattern.to_string(),
        sparsity: found.mask.sparsity(),
        retained_l1: retained.l1,
        retained_l2: retained.l2,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// The report on a tensor that stays as it is.
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

/// Where a tensor's magnitudes lie.
pub(super) fn histogram(mut scores: Vec<f32>) -> Histogram {
    scores.iter_mut().for_each(|score| *score = score.abs());
    Histogram::of(&scores)
}

fn floats(bytes: &[u8], dtype: Dtype) -> Vec<f32> {
    let float = FloatType::of(dtype).unwrap_or_default();
    let mut values = vec![0.0; bytes.len() / float.width()];
    float.decode(bytes, &mut values);
    values
}
