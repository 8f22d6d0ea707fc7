use std::hint::black_box;
use std::sync::OnceLock;

use burn::tensor::{Device, Distribution, Tensor};
use burn_sparse_kernels::{Choice, Window, peak_gflops};
use burn_sparse_pattern::format::{FloatType, Integers, PackedEntry, ValueType};
use burn_sparse_pattern::{Mask, Packed, Pattern};

use super::alternate::alternate;
use super::bench_row::{BenchError, BenchRow};
use super::difference::{accepted, off};
use super::layer::{Layer, LayerKind};
use super::training::{Passes, outputs, steps};
use crate::nn::{KernelInput, record_dispatch};

/// Bytes of packed weights that a GPU cycles through: more than its last-level cache, which would otherwise serve the weights
/// of one layer repeatedly.
const ROTATED: usize = 256 << 20;

/// Maximum number of copies of a layer, so that the dense ones also fit on a GPU.
const COPIES: usize = 64;

/// Maximum number of elements of pending results.
const HELD: usize = 1 << 29;

/// Benchmark of a packed weight against the dense layer it came from, both as Burn modules.
///
/// ```
/// use burn::tensor::Device;
/// use burn_sparse::measure::Bench;
/// use burn_sparse::pattern::format::FloatType;
/// use burn_sparse::pattern::{Mask, Packed, Pattern};
///
/// let pattern = Pattern::balanced(2);
/// let mask = Mask::from_fn(32, 64, |row, col| (row + col) % 2 == 0)?;
/// let packed = Packed::pack(&pattern, &[1.0; 32 * 64], &mask, None)?;
/// let row = Bench::new(&packed, pattern, FloatType::F32, &Device::flex()).row(8)?;
/// println!("{:.1} us dense, {:.1} us sparse, {}", row.dense_us, row.sparse_us, row.kernel);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Bench {
    kind: LayerKind,
    /// Number of elements of a sample.
    features: usize,
    dense: Vec<Layer>,
    sparse: Vec<Layer>,
    mask: Mask,
    pattern: Pattern,
    values: ValueType,
    device: Device,
}

impl Bench {
    /// Prepares a linear layer; on a GPU, enough copies to exceed its caches. On the CPU, values of the packed weight are
    /// stored as `values`. On a training device (`device.autodiff()`), rows time a forward and a backward pass.
    pub fn new(
        packed: &Packed,
        pattern: Pattern,
        values: impl Into<ValueType>,
        device: &Device,
    ) -> Self {
        Self::of(LayerKind::Linear, packed, pattern, values.into(), device)
    }

    /// Prepares a convolution of images with these channels, height, and width.
    ///
    /// # Panics
    /// Panics if the weight has different channels or a different kernel.
    pub fn conv2d(
        packed: &Packed,
        pattern: Pattern,
        values: impl Into<ValueType>,
        device: &Device,
        picture: [usize; 3],
        window: Window,
    ) -> Self {
        let cols = picture[0] * window.kernel[0] * window.kernel[1];
        assert_eq!(packed.cols(), cols, "columns of the packed weight");
        Self::of(LayerKind::Conv2d(picture, window), packed, pattern, values.into(), device)
    }

    /// Prepares the layer that had this input in a model: a linear one, or a convolution.
    ///
    /// # Panics
    /// As [`Self::conv2d`].
    pub fn for_input(
        packed: &Packed,
        pattern: Pattern,
        values: impl Into<ValueType>,
        device: &Device,
        input: &KernelInput,
    ) -> Self {
        match *input {
            KernelInput::Tokens(_) => Self::new(packed, pattern, values, device),
            KernelInput::Pictures { shape: [_, channels, height, width], window } => {
                Self::conv2d(packed, pattern, values, device, [channels, height, width], window)
            }
        }
    }

    fn of(
        kind: LayerKind,
        packed: &Packed,
        pattern: Pattern,
        values: ValueType,
        device: &Device,
    ) -> Self {
        // Convolutions that are stored as integers run in floats.
        let values = match (kind, values) {
            (LayerKind::Conv2d(..), ValueType::Int8 | ValueType::Int4) => FloatType::F32.into(),
            _ => values,
        };
        let mask = packed.mask();
        let copies = match on_cpu(device) || device.is_autodiff() {
            true => 1,
            false => (ROTATED / (mask.kept() * values.bits() / 8).max(1)).clamp(1, COPIES),
        };
        let dense = (0..copies).map(|copy| kind.layer(packed, copy > 0, device));
        let dense: Vec<Layer> = dense.collect();
        let pack = |layer: &Layer| {
            let (view, packed) = (kind.view(packed), packed.clone());
            let (float, scales) = match values {
                ValueType::Float(float) => (float, None),
                ValueType::Int8 => (FloatType::F32, Some(packed.scales(Integers::Int8))),
                ValueType::Int4 => (FloatType::F32, Some(packed.scales(Integers::Int4))),
            };
            layer.pack(PackedEntry { layer: String::new(), view, pattern, packed, float, scales })
        };
        let sparse = dense.iter().map(pack).collect();
        let (features, device) = (kind.features(packed), device.clone());
        Self { kind, features, dense, sparse, mask, pattern, values, device }
    }

    /// Times both layers on `inputs` random tokens or images, after checking that their outputs agree. Samples alternate, so
    /// that a slow phase of the machine affects both.
    ///
    /// # Errors
    /// Returns an error when the device fails, or the outputs differ.
    pub fn row(&self, inputs: usize) -> Result<BenchRow, BenchError> {
        let (rows, cols) = (self.mask.rows(), self.mask.cols());
        let uniform = Distribution::Uniform(-1.0, 1.0);
        let x = Tensor::<2>::random([inputs, self.features], uniform, &self.device);
        let batch = inputs * self.kind.tokens();
        let (choice, error) = self.answer(&x)?;
        let (passes, [dense_us, sparse_us]) = self.times(&x);
        // A device that failed meanwhile would have seemed fast.
        self.answer(&x)?;
        let on_cpu = on_cpu(&self.device);
        let products = if passes.is_some() { 3 } else { 1 };
        let kept_gflops = 2e-3 * (products * self.mask.kept() * batch) as f64 / sparse_us;
        Ok(BenchRow {
            name: None,
            rows,
            cols,
            batch,
            pattern: self.pattern.to_string(),
            sparsity: self.mask.sparsity(),
            values: on_cpu.then(|| self.values.name().to_string()),
            dense_us,
            sparse_us,
            speedup: dense_us / sparse_us,
            kept_gflops,
            share_of_peak: on_cpu.then(|| kept_gflops / peak()),
            passes,
            error,
            kernel: written(choice),
            predicted: choice.and_then(|choice| choice.predicted()),
        })
    }

    /// Returns the microseconds of the dense and of the packed layer; on a training device, their parts too.
    fn times(&self, x: &Tensor<2>) -> (Option<Passes>, [f64; 2]) {
        if self.device.is_autodiff() {
            let passes = steps(&self.dense[0], &self.sparse[0], x);
            return (Some(passes), [passes.dense.total_us(), passes.sparse.total_us()]);
        }
        let seconds = alternate(
            self.dense.len(),
            [&|repeats| pass(&self.dense, x, repeats), &|repeats| pass(&self.sparse, x, repeats)],
        );
        (None, seconds.map(|seconds| 1e6 * seconds))
    }

    /// Returns the kernel that ran, and its error.
    fn answer(&self, x: &Tensor<2>) -> Result<(Option<Choice>, f64), BenchError> {
        let forward = |layer: &Layer| match self.device.is_autodiff() {
            true => outputs(layer, x).to_vec(),
            false => vec![layer.forward(x.clone())],
        };
        let (found, ran) = record_dispatch(|| forward(&self.sparse[0]));
        let choice = ran.first().map(|ran| ran.choice);
        let mut error: f64 = 0.0;
        for (found, expected) in found.into_iter().zip(forward(&self.dense[0])) {
            let off = off(found, expected)?;
            error = if error.is_nan() || off <= error { error } else { off };
        }
        if error.is_nan() || error > accepted(self.values) {
            return Err(BenchError::Wrong { kernel: written(choice), error });
        }
        Ok((choice, error))
    }
}

fn on_cpu(device: &Device) -> bool {
    device.clone().inner() == Device::flex()
}

fn written(choice: Option<Choice>) -> String {
    choice.map_or("none".into(), |choice| choice.to_string())
}

/// Returns the peak GFLOP/s of this CPU, measured once.
fn peak() -> f64 {
    static PEAK: OnceLock<f64> = OnceLock::new();
    *PEAK.get_or_init(peak_gflops)
}

/// Runs `repeats` forward passes, cycling through the layers.
fn pass(layers: &[Layer], x: &Tensor<2>, repeats: usize) {
    let device = x.device();
    let asynchronous = !on_cpu(&device);
    let mut answers = Vec::new();
    let mut elements = 0;
    for layer in layers.iter().cycle().take(repeats) {
        let answer = black_box(layer.forward(x.clone()));
        // An asynchronous device may skip results that have been dropped.
        if asynchronous {
            elements += answer.shape().num_elements();
            answers.push(answer);
            if elements > HELD {
                let _ = device.sync();
                answers.clear();
                elements = 0;
            }
        }
    }
    // Waits for completion; failures are detected when an output is read.
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
    fn on_a_training_device_the_passes_are_timed_apart() {
        let (packed, pattern) = packed(64, 48);
        let device = Device::flex().autodiff();
        let row = Bench::new(&packed, pattern, FloatType::F32, &device).row(20).unwrap();
        let Passes { dense, sparse } = row.passes.unwrap();
        assert!(row.error < 1e-5 && dense.forward_us > 0.0 && sparse.forward_us > 0.0, "{row:?}");
        assert_eq!(row.dense_us, dense.total_us());
        assert_eq!(row.sparse_us, sparse.total_us());
        assert!(row.kernel.starts_with("flex-grouped"), "{row:?}");
    }

    #[test]
    fn a_layer_that_computes_something_else_is_not_timed() {
        for change in [1.1, f32::NAN] {
            let mut bench = bench();
            let Layer::Linear(dense) = &mut bench.dense[0] else { panic!("a linear layer") };
            dense.weight = dense.weight.clone().map(|weight| weight * change);
            let error = bench.row(3).unwrap_err();
            let BenchError::Wrong { error: off, .. } = &error else { panic!("{error}") };
            assert!(off.is_nan() || *off > accepted(FloatType::F32.into()), "{error}");
            assert!(error.to_string().contains("its time would mean nothing"), "{error}");
        }
    }
}
