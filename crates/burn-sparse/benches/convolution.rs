//! Benchmarks convolutions of ResNet-20 and of wider networks: Burn's against ours, packed, and in training (forward
//! and all gradients, dense), as well as batch normalization followed by ReLU.
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
        let name = format!("{layer} training batch 128");
        if wanted(&name) {
            let stock = config.init(&Device::flex().autodiff());
            let ours = Conv2d::from(stock.clone());
            let shape = [128, channels, side, side];
            train(&name, shape, &|x| stock.forward(x), &|x| ours.forward(x));
        }
        let name = format!("norm and relu, {out} on {side}x{side} training batch 128");
        if wanted(&name) {
            let norm = BatchNormConfig::new(out).init(&Device::flex().autodiff());
            let stock = |x| relu(norm.forward(x));
            train(&name, [128, out, side, side], &stock, &|x| batch_norm_relu(&norm, x, None));
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
                for batch in [1, 32] {
                    let kind = pattern.to_string();
                    let name = format!("{layer} {kind} {:.0} % batch {batch}", 100.0 * sparsity);
                    if wanted(&name) {
                        time(&name, &config, side, pattern, sparsity, batch);
                    }
                }
            }
        }
    }
}

type Layered<'a> = &'a dyn Fn(Tensor<4>) -> Tensor<4>;

fn train(name: &str, shape: [usize; 4], stock: Layered<'_>, ours: Layered<'_>) {
    let device = Device::flex().autodiff();
    let x = Tensor::<4>::random(shape, Distribution::Uniform(-1.0, 1.0), &device);
    let x = x.require_grad();
    let steps = |forward: Layered<'_>, repeats| {
        (0..repeats).for_each(|_| drop(black_box(forward(x.clone()).sum().backward())));
    };
    let [stock, ours] =
        alternate(1, [&|repeats| steps(stock, repeats), &|repeats| steps(ours, repeats)]);
    let (stock_us, ours_us) = (1e6 * stock, 1e6 * ours);
    println!("{name:<66} {stock_us:>8.1} us {ours_us:>8.1} us  {:5.2}x", stock / ours);
}

/// Prints the time of each run on images of this shape, and the speedup of the others over the first.
fn infer<const N: usize>(name: &str, shape: [usize; 4], runs: [Layered<'_>; N]) {
    let x = Tensor::<4>::random(shape, Distribution::Uniform(-1.0, 1.0), &Device::flex());
    let repeated = runs.map(|run| {
        let x = x.clone();
        move |repeats: usize| (0..repeats).for_each(|_| drop(black_box(run(x.clone()))))
    });
    let seconds = alternate(1, repeated.each_ref().map(|run| run as &dyn Fn(usize)));
    print!("{name:<66}");
    seconds.iter().for_each(|seconds| print!(" {:>8.1} us", 1e6 * seconds));
    seconds[1..].iter().for_each(|other| print!("  {:5.2}x", seconds[0] / other));
}

#[derive(Module, Debug)]
struct Layer {
    conv: Conv2d,
}

fn time(
    name: &str,
    config: &Conv2dConfig,
    side: usize,
    pattern: Pattern,
    sparsity: f64,
    batch: usize,
) {
    let device = Device::flex();
    let rule = PruneConfig::new(pattern, sparsity).with_ramp(Ramp::one_shot(Steps(0)));
    let layer = Layer { conv: config.init(&device.clone().autodiff()).into() };
    let dense = layer.conv.clone().valid();
    let plan = Plan::new(rule, &layer, Horizon::steps(1)).expect("a plan");
    let pruned = plan.attach(layer).and_then(|sparse| sparse.finish()).expect("masks");
    let packed = pruned.pack().valid().conv;

    let stock = config.init(&device);
    let shape = [batch, config.channels[0], side, side];
    let [of_stock, of_dense, of_packed]: [Layered<'_>; 3] =
        [&|x| stock.forward(x), &|x| dense.forward(x), &|x| packed.forward(x)];
    infer(name, shape, [of_stock, of_dense, of_packed]);
    let x = Tensor::<4>::zeros(shape, &device);
    let (_, ran) = record_dispatch(|| packed.forward(x));
    let expected = ran[0].choice.predicted().map_or(String::new(), |p| {
        format!("; expected {:.1} us, dense {:.1} us", p.sparse_us, p.dense_us)
    });
    println!("  {}{expected}", ran[0].choice);
}
