use std::hint::black_box;
use std::sync::OnceLock;

use burn::tensor::{Device, Distribution, Tensor};
use burn_sparse_kernels::{Choice, Predicted, Window, peak_gflops};
use burn_sparse_pattern::format::{FloatType, PackedEntry};
use burn_sparse_pattern::{Mask, Packed, Pattern};
use safetensors::Dtype;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::alone::{Alone, Kind};
use super::alternate;
use crate::nn::record_dispatch;

/// Bytes of packed weights that a GPU rotates through: more than its last cache holds, which would
/// otherwise serve one layer's weights again and again.
const ROTATED: usize = 256 << 20;

/// Copies of a layer at most, so that the dense ones fit a GPU too.
const COPIES: usize = 64;

/// Elements of answers that are held at most until they are there.
const HELD: usize = 1 << 29;

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
    /// Tokens: rows of the product's input, for a convolution the pixels of its output.
    pub batch: usize,
    /// The pattern of the mask.
    pub pattern: String,
    /// The share of zeros.
    pub sparsity: f64,
    /// The type of the packed weight's values, as safetensors names it; on a GPU all floats are of the device's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Dtype>,
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
    /// How far the sparse layer's answer is off, of the largest output.
    #[serde(default)]
    pub error: f64,
    /// The kernel that ran.
    pub kernel: String,
    /// What the choice rested on, where it rested on measured costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
}

/// Why a time would mean nothing.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum BenchError {
    /// The device reported a failure.
    #[error("the device failed while layers were timed: {0}")]
    Device(String),
    /// The sparse layer computes something else.
    #[error(
        "{kernel} answers {error:.1e} off the dense layer, of its largest output, expected at most {MOST_OFF}: \
         its time would mean nothing"
    )]
    Wrong {
        /// The kernel that ran.
        kernel: String,
        /// As [`BenchRow::error`].
        error: f64,
    },
}

/// What sums in 16 bits, or Burn's dense products of f32 in fewer, may be off at most.
const MOST_OFF: f64 = 3e-2;

/// A packed weight beside the dense layer it came from, both as Burn modules.
#[derive(Debug)]
pub struct Bench {
    kind: Kind,
    /// Elements of a sample.
    features: usize,
    dense: Vec<Alone>,
    sparse: Vec<Alone>,
    mask: Mask,
    pattern: Pattern,
    float: FloatType,
    device: Device,
}

impl Bench {
    /// Prepares linear layers; on a GPU as many copies as outgrow its caches.
    ///
    /// On the CPU, values of the packed weight are kept as `float`.
    pub fn new(packed: &Packed, pattern: Pattern, float: FloatType, device: &Device) -> Self {
        Self::of(Kind::Linear, packed, pattern, float, device)
    }

    /// Prepares convolutions, of pictures with these channels, height and width.
    ///
    /// # Panics
    /// When the weight is of other channels, or another kernel.
    pub fn conv2d(
        packed: &Packed,
        pattern: Pattern,
        float: FloatType,
        device: &Device,
        picture: [usize; 3],
        window: Window,
    ) -> Self {
        let cols = picture[0] * window.kernel[0] * window.kernel[1];
        assert_eq!(packed.cols(), cols, "columns of the packed weight");
        Self::of(Kind::Conv2d(picture, window), packed, pattern, float, device)
    }

    fn of(
        kind: Kind,
        packed: &Packed,
        pattern: Pattern,
        float: FloatType,
        device: &Device,
    ) -> Self {
        let mask = packed.mask();
        let copies = match *device == Device::flex() {
            true => 1,
            false => (ROTATED / (mask.kept() * float.width()).max(1)).clamp(1, COPIES),
        };
        let dense = (0..copies).map(|copy| kind.layer(packed, copy > 0, device));
        let dense: Vec<Alone> = dense.collect();
        let pack = |layer: &Alone| {
            let (view, packed) = (kind.view(packed), packed.clone());
            layer.pack(PackedEntry { layer: String::new(), view, pattern, packed, float })
        };
        let sparse = dense.iter().map(pack).collect();
        let (features, device) = (kind.features(packed), device.clone());
        Self { kind, features, dense, sparse, mask, pattern, float, device }
    }

    /// Times both on random inputs, tokens or pictures, whose answers agree; samples alternate, so that whatever slows the
    /// machine slows both.
    ///
    /// # Errors
    /// When the device fails, or the answers differ.
    pub fn row(&self, inputs: usize) -> Result<BenchRow, BenchError> {
        let (rows, cols) = (self.mask.rows(), self.mask.cols());
        let uniform = Distribution::Uniform(-1.0, 1.0);
        let x = Tensor::<2>::random([inputs, self.features], uniform, &self.device);
        let batch = inputs * self.kind.tokens();
        let (choice, error) = self.answer(&x)?;
        let [dense_s, sparse_s] = alternate(
            self.dense.len(),
            [&|repeats| pass(&self.dense, &x, repeats), &|repeats| pass(&self.sparse, &x, repeats)],
        );
        // A device that failed on the way would have been fast.
        self.answer(&x)?;
        let on_cpu = self.device == Device::flex();
        let kept_gflops = 2.0 * (self.mask.kept() * batch) as f64 / sparse_s / 1e9;
        Ok(BenchRow {
            name: None,
            rows,
            cols,
            batch,
            pattern: self.pattern.to_string(),
            sparsity: self.mask.sparsity(),
            values: on_cpu.then(|| self.float.dtype()),
            dense_us: dense_s * 1e6,
            sparse_us: sparse_s * 1e6,
            speedup: dense_s / sparse_s,
            kept_gflops,
            share_of_peak: on_cpu.then(|| kept_gflops / peak()),
            error,
            kernel: written(choice),
            predicted: choice.and_then(|choice| choice.predicted()),
        })
    }

    /// What answers, and how far it is off.
    fn answer(&self, x: &Tensor<2>) -> Result<(Option<Choice>, f64), BenchError> {
        let (found, ran) = record_dispatch(|| self.sparse[0].forward(x.clone()));
        let choice = ran.first().map(|ran| ran.choice);
        let error = off(found, self.dense[0].forward(x.clone()))?;
        if error.is_nan() || error > MOST_OFF {
            return Err(BenchError::Wrong { kernel: written(choice), error });
        }
        Ok((choice, error))
    }
}

fn written(choice: Option<Choice>) -> String {
    choice.map_or("none".into(), |choice| choice.to_string())
}

/// The largest difference, of the largest value.
fn off(found: Tensor<2>, expected: Tensor<2>) -> Result<f64, BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Device(error.to_string());
    let read = |tensor: Tensor<2>| -> Result<Vec<f32>, BenchError> {
        let data = tensor.try_into_data().map_err(|error| failed(&error))?;
        data.convert::<f32>().try_into_vec().map_err(|error| failed(&format!("{error:?}")))
    };
    let (found, expected) = (read(found)?, read(expected)?);
    let differences = found.iter().zip(&expected).map(|(found, expected)| found - expected);
    let most = largest(expected.iter().copied()).max(f64::MIN_POSITIVE);
    Ok(largest(differences) / most)
}

/// The largest of their sizes; unlike `f32::max` it does not pass over what is not a number.
fn largest(values: impl Iterator<Item = f32>) -> f64 {
    let sizes = values.map(|value| f64::from(value.abs()));
    sizes.fold(0.0, |most: f64, size| if most.is_nan() || size <= most { most } else { size })
}

/// GFLOP/s of this CPU at best, measured once.
fn peak() -> f64 {
    static PEAK: OnceLock<f64> = OnceLock::new();
    *PEAK.get_or_init(peak_gflops)
}

/// `repeats` forward passes, the layers in turn.
fn pass(layers: &[Alone], x: &Tensor<2>, repeats: usize) {
    let device = x.device();
    let behind = device != Device::flex();
    let mut answers = Vec::new();
    let mut elements = 0;
    for layer in layers.iter().cycle().take(repeats) {
        let answer = black_box(layer.forward(x.clone()));
        // A device that runs behind the host may leave out what nobody holds any more.
        if behind {
            elements += answer.shape().num_elements();
            answers.push(answer);
            if elements > HELD {
                let _ = device.sync();
                answers.clear();
                elements = 0;
            }
        }
    }
    // It would otherwise only have been told what to do. Whether it has failed, reading an answer tells.
    let _ = device.sync();
}

#[cfg(test)]
mod tests {
    use burn_sparse_pattern::{Scores, Search};

    use super::*;

    fn packed(rows: usize, cols: usize) -> (Packed, Pattern) {
        let pattern: Pattern = "shfl-bw(vector=8)".parse().unwrap();
        let weights: Vec<f32> =
            (0..rows * cols).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
        let scores: Vec<f32> = weights.iter().map(|weight| weight.abs()).collect();
        let scores = Scores::new(rows, cols, &scores).unwrap();
        let found = pattern.project(&scores, 0.75, &Search::default()).unwrap();
        let order = found.row_order.as_ref();
        (Packed::pack(&pattern, &weights, &found.mask, order).unwrap(), pattern)
    }

    fn bench() -> Bench {
        let (packed, pattern) = packed(64, 48);
        Bench::new(&packed, pattern, FloatType::F32, &Device::flex())
    }

    #[test]
    fn a_convolution_is_timed_as_one_and_a_thin_one_runs_sparse() {
        let (packed, pattern) = packed(16, 144);
        let window =
            Window { kernel: [3, 3], stride: [2, 1], dilation: [1, 1], padding: [(1, 0), (1, 1)] };
        let (float, device) = (FloatType::F32, Device::flex());
        let bench = Bench::conv2d(&packed, pattern, float, &device, [16, 12, 10], window);
        let row = bench.row(2).unwrap();
        assert!(row.error < 1e-5 && row.dense_us > 0.0 && row.sparse_us > 0.0, "{row:?}");
        assert_eq!((row.rows, row.cols, row.batch), (16, 144, 2 * 6 * 10));
        assert!(row.kernel.starts_with("flex-grouped-tiles"), "{row:?}");
    }

    #[test]
    fn layers_that_agree_are_timed() {
        let row = bench().row(3).unwrap();
        assert!(row.error < 1e-5 && row.dense_us > 0.0 && row.sparse_us > 0.0, "{row:?}");
        assert_eq!((row.rows, row.cols, row.batch, row.sparsity), (64, 48, 3, 0.75));
    }

    #[test]
    fn a_layer_that_computes_something_else_is_not_timed() {
        for change in [1.1, f32::NAN] {
            let mut bench = bench();
            let Alone::Linear(dense) = &mut bench.dense[0] else { panic!("a linear layer") };
            dense.weight = dense.weight.clone().map(|weight| weight * change);
            let error = bench.row(3).unwrap_err();
            let BenchError::Wrong { error: off, .. } = &error else { panic!("{error}") };
            assert!(off.is_nan() || *off > MOST_OFF, "{error}");
            assert!(error.to_string().contains("its time would mean nothing"), "{error}");
        }
    }
}
