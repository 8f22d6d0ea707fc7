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
    /// `Σ (y - x)`.
    sum: Vec<f64>,
    /// `Σ x (y - x)ᵀ`.
    products: Mat<f64>,
    /// Part of `products` from the last tokens.
    part: Mat<f32>,
}

/// Means over the inputs of a layer.
pub(super) struct Moments {
    /// `E x xᵀ`, minus the product of the means if centered.
    pub(super) second: Mat<f64>,
    /// `E x`.
    pub(super) mean: Vec<f64>,
    /// Deviation of the dense model's inputs, if they were recorded.
    pub(super) dense: Option<Deviation>,
}

/// Means of the differences between the dense model's inputs `y` and the pruned model's `x`.
pub(super) struct Deviation {
    /// `E x (y - x)ᵀ`, minus the product of the means if centered.
    pub(super) second: Mat<f64>,
    /// `E (y - x)`.
    pub(super) mean: Vec<f64>,
}

/// Number of tokens that are added at a time: few enough that sums over them keep five digits in `f32`.
const CHUNK: usize = 1024;

impl Gram {
    /// Starts sums over `inputs` features; with `dense`, also the sums that compare them with the dense model's inputs.
    pub(super) fn new(inputs: usize, dense: bool) -> Self {
        let square = || Mat::zeros(inputs, inputs);
        let dense = dense.then(|| DenseInputs {
            sum: vec![0.0; inputs],
            products: square(),
            part: Mat::zeros(inputs, inputs),
        });
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
            let x = columns(chunk, self.inputs);
            let doubles = Mat::from_fn(x.nrows(), x.ncols(), |i, j| f64::from(x[(i, j)]));
            add_columns(&mut self.sum, x);
            self.tokens += x.ncols();
            triangular::matmul(
                self.products.as_mut(),
                BlockStructure::TriangularLower,
                Accum::Add,
                doubles.as_ref(),
                BlockStructure::Rectangular,
                doubles.transpose(),
                BlockStructure::Rectangular,
                1.0,
                threads(),
            );
            if let (Some(sums), Some(y)) =
                (&mut self.dense, dense.as_mut().and_then(Iterator::next))
            {
                sums.add(x, columns(y, self.inputs));
            }
        }
    }

    /// Returns the means. With `centered`, second moments are taken about the means, as a layer with a bias needs: its bias
    /// absorbs any constant.
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
            let away = scaled(&dense.sum);
            let second = Mat::from_fn(n, n, |i, j| {
                dense.products[(i, j)] * scale - shift(&mean, i, &away, j)
            });
            Deviation { second, mean: away }
        });
        Moments { second, mean, dense }
    }
}

impl DenseInputs {
    /// Adds the pruned model's inputs `x` and the dense model's `y`, a column for each token.
    ///
    /// Differences are small, and so are the rounding errors of their products in `f32`, which takes half the time of `f64`; no
    /// system is solved with this matrix.
    fn add(&mut self, x: MatRef<'_, f32>, y: MatRef<'_, f32>) {
        let away = y - x;
        add_columns(&mut self.sum, away.as_ref());
        matmul(self.part.as_mut(), Accum::Replace, x, away.transpose(), 1.0, threads());
        for col in 0..self.part.ncols() {
            let part = self.part.col_as_slice(col);
            let sums = self.products.col_as_slice_mut(col);
            sums.iter_mut().zip(part).for_each(|(sum, &part)| *sum += f64::from(part));
        }
    }
}

/// Returns tokens as columns.
fn columns(tokens: &[f32], inputs: usize) -> MatRef<'_, f32> {
    MatRef::from_column_major_slice(tokens, inputs, tokens.len() / inputs)
}

fn add_columns(sum: &mut [f64], columns: MatRef<'_, f32>) {
    for column in 0..columns.ncols() {
        for (sum, &value) in sum.iter_mut().zip(columns.col(column).iter()) {
            *sum += f64::from(value);
        }
    }
}
