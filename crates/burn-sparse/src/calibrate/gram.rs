//! Sums over the inputs of layers, from which everything else is computed.

use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, Mat, MatRef};

use super::factor::threads;

/// Sums over tokens `x` of a layer's inputs, in `f64`.
pub(super) struct Gram {
    inputs: usize,
    tokens: usize,
    /// `Σ x`.
    sum: Vec<f64>,
    /// `Σ x xᵀ`, the lower half.
    products: Mat<f64>,
    dense: Option<DenseInputs>,
}

/// Sums that compare the pruned model's inputs `x` with the dense model's `y` at the same places.
struct DenseInputs {
    /// `Σ y`.
    sum: Vec<f64>,
    /// `Σ x yᵀ`.
    products: Mat<f64>,
}

/// Means over the inputs of a layer.
pub(super) struct Moments {
    /// `E x xᵀ`, less the means if they are removed.
    pub(super) second: Mat<f64>,
    /// `E x`.
    pub(super) mean: Vec<f64>,
    /// `E x yᵀ` and `E y` for the dense model's inputs `y`, if they were recorded.
    pub(super) dense: Option<(Mat<f64>, Vec<f64>)>,
}

/// Tokens that are added at a time.
const CHUNK: usize = 1024;

impl Gram {
    /// Starts sums over `inputs` features; with `dense`, also those against the dense model's inputs.
    pub(super) fn new(inputs: usize, dense: bool) -> Self {
        let square = || Mat::zeros(inputs, inputs);
        let dense = dense.then(|| DenseInputs { sum: vec![0.0; inputs], products: square() });
        Self { inputs, tokens: 0, sum: vec![0.0; inputs], products: square(), dense }
    }

    /// Returns the number of tokens added.
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Adds tokens `[tokens · inputs]`, and those of the dense model at the same places.
    pub(super) fn add(&mut self, tokens: &[f32], dense: Option<&[f32]>) {
        let size = CHUNK * self.inputs;
        let mut dense = dense.map(|dense| dense.chunks(size));
        for chunk in tokens.chunks(size) {
            let x = doubles(chunk);
            let x = MatRef::from_column_major_slice(&x, self.inputs, chunk.len() / self.inputs);
            add_columns(&mut self.sum, x);
            self.tokens += x.ncols();
            triangular::matmul(
                self.products.as_mut(),
                BlockStructure::TriangularLower,
                Accum::Add,
                x,
                BlockStructure::Rectangular,
                x.transpose(),
                BlockStructure::Rectangular,
                1.0,
                threads(),
            );
            if let (Some(sums), Some(chunk)) =
                (&mut self.dense, dense.as_mut().and_then(Iterator::next))
            {
                let y = doubles(chunk);
                let y = MatRef::from_column_major_slice(&y, self.inputs, x.ncols());
                add_columns(&mut sums.sum, y);
                matmul(sums.products.as_mut(), Accum::Add, x, y.transpose(), 1.0, threads());
            }
        }
    }

    /// Returns the means. With `centered`, second moments are those around the means: what a layer with a bias needs, whose
    /// bias makes up for any constant.
    pub(super) fn moments(&self, centered: bool) -> Moments {
        let n = self.inputs;
        let scale = 1.0 / self.tokens.max(1) as f64;
        let scaled = |sum: &[f64]| sum.iter().map(|x| x * scale).collect::<Vec<f64>>();
        let mean = scaled(&self.sum);
        let shift = |left: &[f64], i: usize, right: &[f64], j: usize| match centered {
            true => left[i] * right[j],
            false => 0.0,
        };
        let second = Mat::from_fn(n, n, |i, j| {
            self.products[(i.max(j), i.min(j))] * scale - shift(&mean, i, &mean, j)
        });
        let dense = self.dense.as_ref().map(|dense| {
            let dense_mean = scaled(&dense.sum);
            let products = Mat::from_fn(n, n, |i, j| {
                dense.products[(i, j)] * scale - shift(&mean, i, &dense_mean, j)
            });
            (products, dense_mean)
        });
        Moments { second, mean, dense }
    }
}

fn doubles(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

fn add_columns(sum: &mut [f64], columns: MatRef<'_, f64>) {
    for column in 0..columns.ncols() {
        for (sum, value) in sum.iter_mut().zip(columns.col(column).iter()) {
            *sum += value;
        }
    }
}
