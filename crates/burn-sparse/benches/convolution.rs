//! Benchmarks convolutions of ResNet-20 and of wider networks: Burn's against ours, dense and packed, also in training (forward
//! and all gradients), as well as batch normalization followed by ReLU.
//! `cargo bench --workspace --bench convolution [-- WORD ...]`.

use std::hint::black_box;

use burn::module::Module;
use burn::nn::conv::Conv2dConfig;
use burn::nn::{BatchNormConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Distribution, Tensor};
use burn_sparse::measure::alternate;
use burn_sparse::nn::conv::Conv2d;
use burn_sparse::nn::{batch_norm_relu, record_dispatch};
use burn_sparse::prelude::*;

/// Same global allocator as the command-line program; see there for the reason.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    Costs::cached().install();
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    println!("{:<66} {:>11} {:>11} {:>11}", "", "Burn", "ours dense", "packed");
    // Input channels, output channels, kernel size, image size.
    for shape in [
        (16, 16, 3, 32),
        (32, 32, 3, 16),
        (64, 64, 3, 8),
        (128, 128, 3, 16),
        (256, 256, 3, 14),
        (256, 1024, 1, 14),
    ] {
        let (channels, out, kernel, side) = shape;
        let padding = kernel / 2;
        let padding = PaddingConfig2d::Explicit(padding, padding, padding, padding);
        let config = Conv2dConfig::new([channels, out], [kernel, kernel]).with_padding(padding);
        let layer = format!("{kernel}x{kernel} {channels}->{out} on {side}x{side}");
        let wanted = |name: &str| words.iter().all(|word| name.contains(word.as_str()));
        let name = format!("norm and relu, {out} on {side}x{side} training batch 128");
        if wanted(&name) {
            let norm = BatchNormConfig::new(out).init(&Device::flex().autodiff());
            let stock = |x| relu(norm.forward(x));
            train(&name, [128, out, side, side], [&stock, &|x| batch_norm_relu(&norm, x, None)]);
            println!();
        }
        for batch in [1, 32] {
            let name = format!("norm and relu, {out} on {side}x{side} batch {batch}");
            if wanted(&name) {
                let norm = BatchNormConfig::new(out).init(&Device::flex());
                let stock = |x| relu(norm.forward(x));
                let shape = [batch, out, side, side];
                infer(&name, shape, [&stock, &|x| batch_norm_relu(&norm, x, None)]);
                println!();
            }
        }
        for pattern in [Pattern::unstructured(), Pattern::balanced(32), Pattern::shfl_bw(16)] {
            for sparsity in [0.75, 0.9] {
                let kind = format!("{layer} {pattern} {:.0} %", 100.0 * sparsity);
                for batch in [1, 32] {
                    let name = format!("{kind} batch {batch}");
                    if wanted(&name) {
                        time(&name, &config, side, pattern, sparsity, batch);
                    }
                }
                let name = format!("{kind} training batch 128");
                if wanted(&name) {
                    let stock = config.init(&Device::flex().autodiff());
                    let [dense, packed] = layers(&config, pattern, sparsity);
                    let runs: [Layered<'_>; 3] =
                        [&|x| stock.forward(x), &|x| dense.forward(x), &|x| packed.forward(x)];
                    train(&name, [128, channels, side, side], runs);
                    println!();
                }
            }
        }
    }
}

type Layered<'a> = &'a dyn Fn(Tensor<4>) -> Tensor<4>;

/// Prints the time of a forward and backward pass of each run, and the speedup of the others over the first.
fn train<const N: usize>(name: &str, shape: [usize; 4], runs: [Layered<'_>; N]) {
    let device = Device::flex().autodiff();
    let x = Tensor::<4>::random(shape, Distribution::Uniform(-1.0, 1.0), &device);
    let x = x.require_grad();
    show(name, runs.map(|run| || drop(black_box(run(x.clone()).sum().backward()))));
}

/// Prints the time of each run on images of this shape, and the speedup of the others over the first.
fn infer<const N: usize>(name: &str, shape: [usize; 4], runs: [Layered<'_>; N]) {
    let x = Tensor::<4>::random(shape, Distribution::Uniform(-1.0, 1.0), &Device::flex());
    show(name, runs.map(|run| || drop(black_box(run(x.clone())))));
}

fn show<const N: usize>(name: &str, runs: [impl Fn(); N]) {
    let repeated = runs.map(|run| move |repeats: usize| (0..repeats).for_each(|_| run()));
    let seconds = alternate(1, repeated.each_ref().map(|run| run as &dyn Fn(usize)));
    print!("{name:<66}");
    seconds.iter().for_each(|seconds| print!(" {:>8.1} us", 1e6 * seconds));
    seconds[1..].iter().for_each(|other| print!("  {:5.2}x", seconds[0] / other));
}

#[derive(Module, Debug)]
struct Layer {
    conv: Conv2d,
}

/// Returns a layer in training, dense and packed.
fn layers(config: &Conv2dConfig, pattern: Pattern, sparsity: f64) -> [Conv2d; 2] {
    let rule = PruneConfig::new(pattern, sparsity).with_ramp(Ramp::one_shot(Steps(0)));
    let layer = Layer { conv: config.init(&Device::flex().autodiff()).into() };
    let dense = layer.conv.clone();
    let plan = Plan::new(rule, &layer, Horizon::steps(1)).expect("a plan");
    let pruned = plan.attach(layer).and_then(|sparse| sparse.finish()).expect("masks");
    [dense, pruned.pack().conv]
}

fn time(
    name: &str,
    config: &Conv2dConfig,
    side: usize,
    pattern: Pattern,
    sparsity: f64,
    batch: usize,
) {
    let [dense, packed] = layers(config, pattern, sparsity).map(|layer| layer.valid());
    let stock = config.init(&Device::flex());
    let shape = [batch, config.channels[0], side, side];
    let [of_stock, of_dense, of_packed]: [Layered<'_>; 3] =
        [&|x| stock.forward(x), &|x| dense.forward(x), &|x| packed.forward(x)];
    infer(name, shape, [of_stock, of_dense, of_packed]);
    let x = Tensor::<4>::zeros(shape, &Device::flex());
    let (_, ran) = record_dispatch(|| packed.forward(x));
    let expected = ran[0].choice.predicted().map_or(String::new(), |p| {
        format!("; expected {:.1} us, dense {:.1} us", p.sparse_us, p.dense_us)
    });
    println!("  {}{expected}", ran[0].choice);
}
