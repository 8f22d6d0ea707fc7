use std::hint::black_box;
use std::sync::OnceLock;

use burn::module::{Module, Param};
use burn::tensor::{Device, Distribution, Tensor, TensorData};
use burn_sparse_kernels::{Predicted, peak_gflops};
use burn_sparse_pattern::format::{FloatType, PackedEntry, View};
use burn_sparse_pattern::{Packed, Pattern};
use serde::{Deserialize, Serialize};

use super::alternate;
use crate::nn::{Linear, PackInto, record_dispatch};

/// Bytes of packed weights that a GPU rotates through: more than its last cache holds, which would
/// otherwise serve one layer's weights again and again.
const ROTATED: usize = 128 << 20;

/// Copies of a layer at most, so that the dense ones fit a GPU too.
const COPIES: usize = 64;

/// One layer and batch, dense and sparse in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchRow {
    /// The weight, where it has a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Outputs.
    pub rows: usize,
    /// Reduction.
    pub cols: usize,
    /// Tokens.
    pub batch: usize,
    /// The pattern of the mask.
    pub pattern: String,
    /// The share of zeros.
    pub sparsity: f64,
    /// Median microseconds of Burn's dense layer.
    pub dense_us: f64,
    /// Median microseconds of the packed layer.
    pub sparse_us: f64,
    /// Dense over sparse.
    pub speedup: f64,
    /// GFLOP/s on kept weights.
    pub kept_gflops: f64,
    /// The share of what the CPU's multiply-adds could do at best, measured in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_peak: Option<f64>,
    /// The kernel that ran.
    pub kernel: String,
    /// What the choice rested on, where it rested on measured costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
}

/// Times a packed weight against the dense layer it came from, on random inputs, both through Burn
/// modules; samples alternate, so that whatever slows the machine slows both.
///
/// On the CPU, values of the packed weight are kept as `float`.
pub fn bench(
    packed: &Packed,
    pattern: Pattern,
    float: FloatType,
    batch: usize,
    device: &Device,
) -> BenchRow {
    let (rows, cols) = (packed.rows(), packed.cols());
    let mask = packed.mask();
    let copies = match *device == Device::flex() {
        true => 1,
        false => (ROTATED / (mask.kept() * size_of::<f32>()).max(1)).clamp(1, COPIES),
    };
    let pairs = (0..copies).map(|_| layers(packed, pattern, float, device));
    let (dense, sparse): (Vec<Linear>, Vec<Linear>) = pairs.unzip();
    let x = Tensor::<2>::random([batch, cols], Distribution::Uniform(-1.0, 1.0), device);

    let [dense_s, sparse_s] = alternate(
        copies,
        [&|repeats| pass(&dense, &x, repeats), &|repeats| pass(&sparse, &x, repeats)],
    );
    let (_, ran) = record_dispatch(|| sparse[0].forward(x.clone()));
    let choice = ran.first().map(|ran| ran.choice);
    let kernel = choice.map_or("none".into(), |choice| choice.to_string());
    let kept_gflops = 2.0 * (mask.kept() * batch) as f64 / sparse_s / 1e9;
    BenchRow {
        name: None,
        rows,
        cols,
        batch,
        pattern: pattern.to_string(),
        sparsity: mask.sparsity(),
        dense_us: dense_s * 1e6,
        sparse_us: sparse_s * 1e6,
        speedup: dense_s / sparse_s,
        kept_gflops,
        share_of_peak: (*device == Device::flex()).then(|| kept_gflops / peak()),
        kernel,
        predicted: choice.and_then(|choice| choice.predicted()),
    }
}

/// GFLOP/s of this CPU at best, measured once.
fn peak() -> f64 {
    static PEAK: OnceLock<f64> = OnceLock::new();
    *PEAK.get_or_init(peak_gflops)
}

/// The dense layer and the same packed, in buffers of their own.
fn layers(
    packed: &Packed,
    pattern: Pattern,
    float: FloatType,
    device: &Device,
) -> (Linear, Linear) {
    let (rows, cols) = (packed.rows(), packed.cols());
    let view = View::Linear { rows, cols };
    let stored = TensorData::new(view.to_stored(&packed.unpack()), [cols, rows]);
    let weight = Param::from_tensor(Tensor::from_data(stored, device));
    let bias = Tensor::random([rows], Distribution::Uniform(-1.0, 1.0), device);
    let dense = Linear { weight, bias: Some(Param::from_tensor(bias)) };
    let packed = packed.clone();
    let entry = PackedEntry { layer: String::new(), view, pattern, packed, float };
    let weights = [("weight".to_string(), entry)];
    let sparse = dense.clone().apply_reparameterization(PackInto::new(weights.into()));
    (dense, sparse)
}

/// `repeats` forward passes, the layers in turn.
fn pass(layers: &[Linear], x: &Tensor<2>, repeats: usize) {
    for layer in layers.iter().cycle().take(repeats) {
        black_box(layer.forward(x.clone()));
    }
    // Devices that run behind the host would otherwise only have been told what to do. A device that
    // fails shows it in the results, which tests read back.
    let _ = x.device().sync();
}
