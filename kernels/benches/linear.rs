//! Benchmarks the packed operator against Burn's dense product, alternating in one run: `cargo bench --workspace
//! --bench linear [-- WORD ...]`, where every word must occur in a case's name
//! (`shfl-bw(vector=32) 1024x1024 75 % batch 128`); words that are patterns (`balanced(block=50)`) replace the
//! default patterns.

use std::hint::black_box;
use std::time::Instant;

use burn::tensor::module::linear;
use burn::tensor::{Device, Distribution, Tensor, TensorData};
use burn_sparse_kernels::{Activation, Costs, PackedTensors, peak_gflops, select, sparse_linear};
use burn_sparse_pattern::{Packed, Pattern, Scores, Search};

const SHAPES: [(usize, usize); 4] = [(1024, 1024), (4096, 1024), (1024, 4096), (4096, 4096)];
const PATTERNS: [&str; 3] = ["shfl-bw(vector=32)", "balanced(block=32)", "unstructured"];
const SPARSITIES: [f64; 2] = [0.75, 0.9];
const BATCHES: [usize; 5] = [1, 16, 32, 128, 512];

/// Number of alternating pairs of samples, after one warm-up pair.
const SAMPLES: usize = 15;
/// Minimum seconds of one sample, so that the clock's resolution does not matter.
const SAMPLE_SECONDS: f64 = 2e-3;

fn main() {
    Costs::cached().install();
    let words = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    let (mut patterns, words): (Vec<_>, Vec<_>) =
        words.partition(|word| word.parse::<Pattern>().is_ok());
    if patterns.is_empty() {
        patterns = PATTERNS.map(String::from).to_vec();
    }
    let device = Device::flex();
    let peak = peak_gflops();
    println!("peak of this machine, all threads: {peak:.0} GFLOP/s");
    for (rows, cols) in SHAPES {
        for text in &patterns {
            for sparsity in SPARSITIES {
                let name =
                    |batch| format!("{text} {rows}x{cols} {:.0} % batch {batch}", 100.0 * sparsity);
                let wanted = |name: &str| words.iter().all(|word| name.contains(word.as_str()));
                let batches = BATCHES.into_iter().filter(|&batch| wanted(&name(batch)));
                let mut layer = None;
                for batch in batches {
                    let layer = layer
                        .get_or_insert_with(|| Layer::new(text, rows, cols, sparsity, &device));
                    println!("{:<52} {}", name(batch), layer.time(batch, peak, &device));
                }
            }
        }
    }
}

/// Random weight, dense and packed.
struct Layer {
    dense: Tensor<2>,
    packed: PackedTensors,
    bias: Tensor<1>,
    kept: usize,
}

impl Layer {
    fn new(pattern: &str, rows: usize, cols: usize, sparsity: f64, device: &Device) -> Self {
        let random = Tensor::<1>::random([rows * cols], Distribution::Normal(0.0, 1.0), device);
        let weights: Vec<f32> = random.into_data().try_into_vec().expect("floats");
        let scores: Vec<f32> = weights.iter().map(|weight| weight.abs()).collect();
        let scores = Scores::new(rows, cols, &scores).expect("finite scores");
        let pattern: Pattern = pattern.parse().expect("a pattern");
        let found = pattern.project(&scores, sparsity, &Search::default()).expect("a mask");
        let packed = Packed::pack(&pattern, &weights, &found.mask, found.row_order.as_ref());
        let packed = packed.expect("weights of the mask's shape");
        let dense = Tensor::<2>::from_data(TensorData::new(packed.unpack(), [rows, cols]), device);
        Self {
            // As `Linear` stores it: `[cols, rows]`, contiguous.
            dense: Tensor::from_data(dense.transpose().into_data(), device),
            packed: PackedTensors::from_packed(&packed, device),
            bias: Tensor::random([rows], Distribution::Uniform(-1.0, 1.0), device),
            kept: found.mask.kept(),
        }
    }

    fn time(&self, batch: usize, peak: f64, device: &Device) -> String {
        let (rows, cols) = (self.packed.rows(), self.packed.cols());
        let x = Tensor::<2>::random([batch, cols], Distribution::Uniform(-1.0, 1.0), device);
        let runs: [&dyn Fn() -> Tensor<2>; 2] =
            [&|| linear(x.clone(), self.dense.clone(), Some(self.bias.clone())), &|| {
                sparse_linear(x.clone(), &self.packed, Some(self.bias.clone()), Activation::None)
            }];
        let sample = |run: &dyn Fn() -> Tensor<2>, repeats: usize| {
            let started = Instant::now();
            for _ in 0..repeats {
                black_box(run());
            }
            started.elapsed().as_secs_f64() / repeats as f64
        };
        let repeats = runs.map(|run| {
            let seconds = sample(run, 1).min(sample(run, 1));
            ((SAMPLE_SECONDS / seconds).ceil() as usize).clamp(1, 10_000)
        });
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..=SAMPLES {
            for at in 0..2 {
                let seconds = sample(runs[at], repeats[at]);
                if round > 0 {
                    times[at].push(seconds);
                }
            }
        }
        let [dense, sparse] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[SAMPLES / 2]
        });
        let gflops = |weights: usize, seconds: f64| 2e-9 * (weights * batch) as f64 / seconds;
        let (dense_rate, sparse_rate) = (gflops(rows * cols, dense), gflops(self.kept, sparse));
        format!(
            "{:5.2}x  {:9.1} us ({:3.0} % of peak) -> {:8.1} us ({:3.0} %)  {}",
            dense / sparse,
            dense * 1e6,
            100.0 * dense_rate / peak,
            sparse * 1e6,
            100.0 * sparse_rate / peak,
            select(&self.packed, batch, x.dtype(), device),
        )
    }
}
