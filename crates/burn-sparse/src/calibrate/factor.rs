//! Cholesky factorization of damped Gram matrices.

use std::sync::OnceLock;

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::triangular_inverse::invert_lower_triangular;
use faer::linalg::triangular_solve::{
    solve_lower_triangular_in_place, solve_upper_triangular_in_place,
};
use faer::prelude::*;
use faer::{Accum, Mat, MatMut, Par};

/// Returns the parallelism of products and factorizations: rayon's threads, where threads are available.
pub(super) fn threads() -> Par {
    #[cfg(not(target_family = "wasm"))]
    return Par::rayon(0);
    #[cfg(target_family = "wasm")]
    Par::Seq
}

/// Factor `L` of a symmetric positive definite matrix, `L Lᵀ`.
pub(super) struct Factor(Mat<f64>);

/// Factor of a Gram matrix with the damping that made it positive definite.
pub(super) struct Damped {
    /// Damped matrix.
    pub(super) matrix: Mat<f64>,
    /// Its factor.
    pub(super) factor: Factor,
    /// Share of the mean of the diagonal that was added to the diagonal.
    pub(super) damp: f64,
    /// Value added to the diagonal.
    pub(super) added: f64,
    inverse: OnceLock<Mat<f64>>,
}

/// Smallest damping that is tried when the given one is not enough.
const LEAST: f64 = 1e-8;

impl Damped {
    /// Adds `damp` times the mean of the diagonal to it, with `damp` multiplied by ten until the matrix is positive definite. A
    /// matrix of zeros becomes the identity: without any input, all weights are equally good.
    pub(super) fn new(gram: &Mat<f64>, damp: f64, par: Par) -> Self {
        let n = gram.nrows();
        let mean = (0..n).map(|i| gram[(i, i)]).sum::<f64>() / n.max(1) as f64;
        let mut damp = damp;
        let unit = match mean > 0.0 {
            true => mean,
            false => {
                damp = 1.0;
                1.0
            }
        };
        loop {
            let mut matrix = gram.clone();
            for i in 0..n {
                matrix[(i, i)] += damp * unit;
            }
            if let Some(factor) = Factor::new(matrix.clone(), par) {
                return Self { matrix, factor, damp, added: damp * unit, inverse: OnceLock::new() };
            }
            damp = (10.0 * damp).max(LEAST);
        }
    }

    /// Returns the inverse of the damped matrix, which all weights of a layer's input share.
    pub(super) fn inverse(&self) -> &Mat<f64> {
        self.inverse.get_or_init(|| self.factor.inverse(threads()))
    }

    /// Returns the lower half of the damped matrix of these columns, with zeros above the diagonal.
    pub(super) fn part(&self, columns: &[usize]) -> Mat<f64> {
        let mut part = Mat::zeros(columns.len(), columns.len());
        for (at, &col) in columns.iter().enumerate() {
            let from = self.matrix.col_as_slice(col);
            let to = &mut part.col_as_slice_mut(at)[at..];
            to.iter_mut().zip(&columns[at..]).for_each(|(to, &row)| *to = from[row]);
        }
        part
    }
}

/// Returns the rows of `U`, with `Uᵀ U = H⁻¹` and `U` upper triangular: `(w / Uⱼⱼ)²` is the saliency of a weight of
/// column `j` when all columns before it are fixed.
pub(super) fn upper_factor_of_inverse(matrix: &Mat<f64>, par: Par) -> Vec<Vec<f64>> {
    let n = matrix.nrows();
    // With J the reversal of rows, J H J = L Lᵀ gives H⁻¹ = (J L⁻ᵀ J)(J L⁻¹ J) = Uᵀ U with U = J L⁻¹ J, which is upper
    // triangular: no inverse is factored, which would square the error.
    // The factorization reads only the lower half, and so does this reversal of a symmetric matrix.
    let reversed = Mat::from_fn(n, n, |i, j| matrix[(n - 1 - j, n - 1 - i)]);
    let factor = Factor::new(reversed, par);
    let inverse = factor.map(|factor| factor.inverse_lower(par));
    let value = |i: usize, j: usize| match &inverse {
        Some(inverse) if j >= i => inverse[(n - 1 - i, n - 1 - j)],
        // The reversed matrix fails to factor only because of rounding errors; its diagonal is used instead.
        None if i == j => matrix[(i, i)].sqrt().recip(),
        _ => 0.0,
    };
    (0..n).map(|i| (0..n).map(|j| value(i, j)).collect()).collect()
}

impl Factor {
    /// Factors the lower half of a matrix; `None` if it is not positive definite, in the precision of `f64`.
    pub(super) fn new(mut matrix: Mat<f64>, par: Par) -> Option<Self> {
        let n = matrix.nrows();
        // Below this, a pivot is rounding error: relative to the largest entry, as in LAPACK's rank tests.
        let largest = (0..n).map(|i| matrix[(i, i)]).fold(0.0, f64::max);
        let least = largest * n as f64 * f64::EPSILON;
        let need = llt::factor::cholesky_in_place_scratch::<f64>(n, par, Default::default());
        let mut memory = MemBuffer::new(need);
        let stack = MemStack::new(&mut memory);
        llt::factor::cholesky_in_place(
            matrix.as_mut(),
            Default::default(),
            par,
            stack,
            Default::default(),
        )
        .ok()?;
        (0..n).all(|i| matrix[(i, i)].powi(2) > least).then_some(Self(matrix))
    }

    /// Solves for all columns of `right`, in place.
    pub(super) fn solve(&self, mut right: MatMut<'_, f64>, par: Par) {
        self.solve_lower(right.rb_mut(), par);
        solve_upper_triangular_in_place(self.0.transpose(), right, par);
    }

    /// Computes `L⁻¹ right`, in place.
    pub(super) fn solve_lower(&self, right: MatMut<'_, f64>, par: Par) {
        solve_lower_triangular_in_place(self.0.as_ref(), right, par);
    }

    /// Computes `L⁻¹`.
    pub(super) fn inverse_lower(&self, par: Par) -> Mat<f64> {
        let n = self.0.nrows();
        let mut inverse = Mat::zeros(n, n);
        invert_lower_triangular(inverse.as_mut(), self.0.as_ref(), par);
        inverse
    }

    /// Computes the inverse of the matrix, `L⁻ᵀ L⁻¹`.
    fn inverse(&self, par: Par) -> Mat<f64> {
        let n = self.0.nrows();
        let lower = self.inverse_lower(par);
        let mut inverse = Mat::zeros(n, n);
        triangular::matmul(
            inverse.as_mut(),
            BlockStructure::TriangularLower,
            Accum::Replace,
            lower.transpose(),
            BlockStructure::TriangularUpper,
            lower.as_ref(),
            BlockStructure::TriangularLower,
            1.0,
            par,
        );
        for col in 0..n {
            for row in col + 1..n {
                inverse[(col, row)] = inverse[(row, col)];
            }
        }
        inverse
    }
}
