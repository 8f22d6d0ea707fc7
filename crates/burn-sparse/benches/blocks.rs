//! Benchmarks whole blocks as Burn modules against the sum of their kernels: the overhead of modules, dispatch and
//! activations. `cargo bench --workspace --bench blocks [-- WORD ...]`.

use std::collections::BTreeMap;
use std::hint::black_box;

use burn::module::{Module, Param};
use burn::tensor::{Device, Distribution, Tensor};
use burn_sparse::Costs;
use burn_sparse::checkpoint::Checkpoint;
use burn_sparse::measure::alternate;
use burn_sparse::nn::{Activation, Linear, LinearConfig, record_dispatch};
use burn_sparse::pattern::format::{Entry, FloatType, PackedEntry, View};
use burn_sparse::pattern::{Packed, Pattern, Scores, Search};
use burn_sparse_kernels::{PackedTensors, sparse_linear};

/// Same global allocator as the command-line program; see there for the reason.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Input features, output features and activation of every layer.
type Widths = &'static [(usize, usize, Activation)];

const BLOCKS: [(&str, Widths); 2] = [
    (
        "MLP 784-512-512-512",
        &[(784, 512, Activation::Relu), (512, 512, Activation::Relu), (512, 512, Activation::None)],
    ),
    ("feed-forward 512-2048-512", &[(512, 2048, Activation::Gelu), (2048, 512, Activation::None)]),
];

fn main() {
    Costs::cached().install();
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    println!("{:<62} {:>9} {:>9} {:>9}", "", "dense", "sparse", "kernels");
    for (block, widths) in BLOCKS {
        for pattern in ["shfl-bw(vector=32)", "balanced(block=32)"] {
            for sparsity in [0.75, 0.9] {
                for batch in [1, 16, 32, 128, 512] {
                    let zeros = 100.0 * sparsity;
                    let name = format!("{block} {pattern} {zeros:.0} % batch {batch}");
                    if words.iter().all(|word| name.contains(word.as_str())) {
                        let block = Block::new(widths, pattern.parse().unwrap(), sparsity, batch);
                        println!("{name:<62} {}", block.time());
                    }
                }
            }
        }
    }
}

/// Sequence of layers, dense or packed.
#[derive(Module, Debug)]
struct Layers {
    layers: Vec<Linear>,
}

impl Layers {
    fn forward(&self, mut x: Tensor<2>, widths: Widths) -> Tensor<2> {
        for (layer, &(_, _, activation)) in self.layers.iter().zip(widths) {
            x = layer.forward_activated(x, activation);
        }
        x
    }
}

/// Returns the layers with these weights packed.
fn packed_of(dense: Layers, mut entries: BTreeMap<String, Entry>) -> Layers {
    for (at, layer) in dense.layers.iter().enumerate() {
        let bias = layer.bias.as_ref().expect("a bias").val();
        let shape = bias.dims().to_vec();
        let values = bias.into_data().try_into_vec().expect("floats");
        let (layer, float) = (String::new(), FloatType::F32);
        let bias = Entry::Dense { layer, shape, values, float, scales: None };
        entries.insert(format!("layers.{at}.bias"), bias);
    }
    Checkpoint::from_entries(entries).load(dense).expect("parameters of the layers")
}

struct Block {
    widths: Widths,
    dense: Layers,
    sparse: Layers,
    input: Tensor<2>,
    /// Arguments of the bare kernels: input, packed weight, bias, activation.
    kernels: Vec<(Tensor<2>, PackedTensors, Tensor<1>, Activation)>,
}

impl Block {
    fn new(widths: Widths, pattern: Pattern, sparsity: f64, batch: usize) -> Self {
        let device = Device::flex();
        let (mut dense, mut entries, mut weights_of) = (Vec::new(), BTreeMap::new(), Vec::new());
        for (at, &(cols, rows, _)) in widths.iter().enumerate() {
            let random =
                Tensor::<1>::random([rows * cols], Distribution::Normal(0.0, 0.05), &device);
            let weights: Vec<f32> = random.into_data().try_into_vec().expect("floats");
            let scores: Vec<f32> = weights.iter().map(|weight| weight.abs()).collect();
            let scores = Scores::new(rows, cols, &scores).expect("finite scores");
            let found = pattern.project(&scores, sparsity, &Search::default()).expect("a mask");
            let order = found.row_order.as_ref();
            let packed = Packed::pack(&pattern, &weights, &found.mask, order);
            let packed = packed.expect("weights of the mask's shape");
            dense.push(LinearConfig::new(cols, rows).init(&device));
            let (layer, view) = (String::new(), View::Linear { rows, cols });
            weights_of.push(PackedTensors::from_packed(&packed, &device));
            let entry =
                PackedEntry { layer, view, pattern, packed, float: FloatType::F32, scales: None };
            entries.insert(format!("layers.{at}.weight"), Entry::Packed(entry));
        }
        let dense = Layers { layers: dense };
        let sparse = packed_of(dense.clone(), entries);
        let input = Tensor::random([batch, widths[0].0], Distribution::Uniform(-1.0, 1.0), &device);
        let (mut x, mut kernels) = (input.clone(), Vec::new());
        for ((layer, weight), &(_, _, activation)) in
            sparse.layers.iter().zip(weights_of).zip(widths)
        {
            let bias = layer.bias.as_ref().map(Param::val).expect("a bias");
            kernels.push((x.clone(), weight, bias, activation));
            x = layer.forward_activated(x, activation);
        }
        Self { widths, dense, sparse, input, kernels }
    }

    fn time(&self) -> String {
        let whole =
            |layers: &Layers| drop(black_box(layers.forward(self.input.clone(), self.widths)));
        // Runs them in sequence, as the block does, so that each finds the caches in a similar state.
        let kernels = || {
            for (x, weight, bias, activation) in &self.kernels {
                let bias = Some(bias.clone());
                black_box(sparse_linear(x.clone(), weight, bias, *activation));
            }
        };
        let [dense, sparse, kernels] = alternate(
            1,
            [
                &|repeats| (0..repeats).for_each(|_| whole(&self.dense)),
                &|repeats| (0..repeats).for_each(|_| whole(&self.sparse)),
                &|repeats| (0..repeats).for_each(|_| kernels()),
            ],
        );
        let ((), ran) = record_dispatch(|| whole(&self.sparse));
        let ran: Vec<String> = ran.iter().map(|ran| ran.choice.to_string()).collect();
        format!(
            "{:>6.1} us {:>6.1} us {:>6.1} us  {:5.2}x faster, {:4.2} of its kernels  {}",
            1e6 * dense,
            1e6 * sparse,
            1e6 * kernels,
            dense / sparse,
            sparse / kernels,
            ran.join(" "),
        )
    }
}
