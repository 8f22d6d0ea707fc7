use std::ops::Range;

use burn::tensor::{Device, Tensor, TensorData, assert_shape};

/// Rotary position embedding (Su et al., "RoFormer", 2021) of a range of positions, in the half-split form of Hugging Face's
/// Llama: feature `i` is rotated with feature `i + d_head / 2`. (burn-nn's `RotaryEncoding` pairs neighbours.)
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_sparse::nn::Rotary;
///
/// let device = Device::flex();
/// let rotary = Rotary::new(10_000.0, 8, 0..5, &device);
/// let x = Tensor::<4>::ones([1, 2, 5, 8], &device);
/// assert_eq!(rotary.apply(x).dims(), [1, 2, 5, 8]);
/// ```
#[derive(Debug, Clone)]
pub struct Rotary {
    /// `[positions, d_head / 2]`.
    cos: Tensor<2>,
    /// `[positions, d_head / 2]`.
    sin: Tensor<2>,
}

impl Rotary {
    /// Computes the angles of `positions`: feature `i` of position `p` is rotated by `p · theta^(-2i / d_head)`.
    pub fn new(theta: f64, d_head: usize, positions: Range<usize>, device: &Device) -> Self {
        let (count, half) = (positions.len(), d_head / 2);
        let angles: Vec<f64> = positions
            .flat_map(|at| {
                (0..half).map(move |i| at as f64 * theta.powf(-2.0 * i as f64 / d_head as f64))
            })
            .collect();
        let table = |of: fn(f64) -> f64| {
            let values: Vec<f32> = angles.iter().map(|&angle| of(angle) as f32).collect();
            Tensor::from_data(TensorData::new(values, [count, half]), device)
        };
        Self { cos: table(f64::cos), sin: table(f64::sin) }
    }

    /// Rotates the features of every head.
    ///
    /// # Shapes
    /// - `x` and the output: `[batch, heads, positions, d_head]`
    ///
    /// # Panics
    /// Panics if the number of positions or features does not match.
    pub fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        let [positions, half] = self.cos.dims();
        assert_shape!(x, [_, _, positions, 2 * half]);
        if !x.is_autodiff()
            && let Some(turned) = burn_sparse_kernels::rotary(&x, &self.cos, &self.sin)
        {
            return turned;
        }
        let table = |table: &Tensor<2>| table.clone().reshape([1, 1, positions, half]);
        let (cos, sin) = (table(&self.cos), table(&self.sin));
        let (a, b) = (x.clone().narrow(3, 0, half), x.narrow(3, half, half));
        let turned_a = a.clone() * cos.clone() - b.clone() * sin.clone();
        Tensor::cat(vec![turned_a, b * cos + a * sin], 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_turn_in_pairs_half_a_head_apart() {
        let device = Device::flex();
        let rotary = Rotary::new(100.0, 4, 3..4, &device);
        let x = Tensor::<4>::from_data([[[[1.0, 2.0, 3.0, 4.0_f32]]]], &device);
        let found = rotary.apply(x).into_data().try_into_vec::<f32>().unwrap();
        let (first, second) = (3.0_f64, 3.0 * 100.0_f64.powf(-0.5));
        let turn =
            |a: f64, b: f64, by: f64| (a * by.cos() - b * by.sin(), b * by.cos() + a * by.sin());
        let ((a, c), (b, d)) = (turn(1.0, 3.0, first), turn(2.0, 4.0, second));
        for (found, expected) in found.iter().zip([a, b, c, d]) {
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{found} {expected}");
        }
    }
}
