//! What tests of calibration share: layers, inputs, plans.

use burn::module::Module;
use burn::nn::LinearConfig;
use burn::tensor::{Device, Distribution, Tensor};
use burn_sparse::calibrate::{CalibrateConfig, Whole};
use burn_sparse::nn::Linear;
use burn_sparse::prelude::*;
use burn_sparse::train::PrunedWeight;
use faer::{Mat, linalg::solvers::SolveLstsq};

use crate::models::seeded;

/// Patterns that keep the same columns in several rows, and patterns whose rows choose on their own.
pub const PATTERNS: [&str; 9] = [
    "unstructured",
    "balanced(block=8)",
    "n-of-m(keep=2,of=4)",
    "vector-wise(vector=4)",
    "shfl-bw(vector=4)",
    "shfl-bw(vector=32)",
    "shfl-bw(vector=8,equal_groups=false)",
    "hinm(vector=4,keep=2,of=4)",
    "block-wise(block=4)",
];

/// Returns a layer, the same every time.
pub fn linear(inputs: usize, outputs: usize, bias: bool) -> Linear {
    seeded(&Device::flex(), 3, |device| {
        LinearConfig::new(inputs, outputs).with_bias(bias).init(device)
    })
    .into()
}

/// Returns tokens whose features are correlated, as those of networks are, with means that are not zero.
pub fn tokens(count: usize, features: usize) -> Tensor<2> {
    seeded(&Device::flex(), 5, |device| {
        let mix = Tensor::<2>::random([features, features], Distribution::Default, device);
        let noise = Tensor::random([count, features], Distribution::Normal(0.0, 1.0), device);
        (noise.clone().matmul(mix) * 0.3 + noise) + 0.5
    })
}

/// Runs a single layer.
pub fn forward() -> Whole<Tensor<2>, impl Fn(&Linear, &Tensor<2>)> {
    Whole::new(|model: &Linear, x: &Tensor<2>| {
        model.forward(x.clone());
    })
}

/// Tiny damping, and the layer's own outputs as the target: plain least squares.
pub fn exact() -> CalibrateConfig {
    CalibrateConfig::new().with_toward_dense(0.0).with_damp(1e-12)
}

/// Returns a rule without a ramp.
pub fn rule(pattern: &str, sparsity: f64) -> PruneConfig {
    PruneConfig::new(pattern.parse().unwrap(), sparsity)
}

/// Returns the plan of a rule that prunes before the first step.
pub fn plan<M: Module>(model: &M, rule: &PruneConfig) -> Plan {
    Plan::new(rule, model, Horizon::steps(0)).unwrap()
}

/// Reads a tensor.
pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().convert::<f64>().try_into_vec().unwrap()
}

/// Reads a matrix.
pub fn matrix(tensor: Tensor<2>) -> Mat<f64> {
    let [rows, cols] = tensor.dims();
    let values = values(tensor);
    Mat::from_fn(rows, cols, |row, col| values[row * cols + col])
}

/// Returns the smallest squared error against `wanted` that weights on the mask of a weight can reach, with a bias or without,
/// by QR of the inputs themselves.
pub fn smallest_error(
    inputs: &Mat<f64>,
    wanted: &Mat<f64>,
    weight: &PrunedWeight,
    bias: bool,
) -> f64 {
    let column = |row: usize| {
        let kept: Vec<usize> = weight.mask.row_columns(row).collect();
        // The bias is the weight of a constant input.
        let part = Mat::from_fn(inputs.nrows(), kept.len() + usize::from(bias), |token, at| {
            kept.get(at).map_or(1.0, |&col| inputs[(token, col)])
        });
        let goal = Mat::from_fn(wanted.nrows(), 1, |token, _| wanted[(token, row)]);
        (&part * part.qr().solve_lstsq(&goal) - &goal).squared_norm_l2()
    };
    (0..weight.mask.rows()).map(column).sum()
}
