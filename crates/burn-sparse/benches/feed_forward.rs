//! Benchmarks a Transformer's feed-forward block with GELU: burn-nn's, ours packed, and its two packed layers called
//! separately, in which case a GPU transposes between them. Runs on the CPU, or with the `cuda` feature on the first
//! GPU in bf16.
//! `cargo bench --workspace --bench feed_forward [-- WORD ...]`.

use std::hint::black_box;

use burn::module::Module;
use burn::nn::transformer::{PositionWiseFeedForward as Stock, PositionWiseFeedForwardConfig};
use burn::tensor::{Device, Distribution, Tensor};
use burn_sparse::measure::alternate;
use burn_sparse::nn::transformer::PositionWiseFeedForward;
use burn_sparse::nn::{Activation, record_dispatch};
use burn_sparse::prelude::*;

/// Same global allocator as the command-line program; see there for the reason.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Benchmarked sizes: model and inner features, token counts, and the vector length of Shfl-BW.
struct Sizes {
    features: &'static [[usize; 2]],
    tokens: &'static [usize],
    vector: usize,
}

#[cfg(not(feature = "cuda"))]
fn subject() -> (Device, Sizes) {
    let features = &[[256, 1024], [512, 2048], [1024, 4096]];
    (Device::flex(), Sizes { features, tokens: &[1, 32, 512], vector: 32 })
}

#[cfg(feature = "cuda")]
fn subject() -> (Device, Sizes) {
    let mut device = Device::cuda(0);
    device.configure(burn::tensor::FloatDType::BF16).expect("a device that nothing has used yet");
    let features = &[[1024, 4096], [4096, 14336]];
    (device, Sizes { features, tokens: &[16, 1024, 4096], vector: 64 })
}

fn main() {
    // On a GPU, `built-in` runs the sparse kernels without timing them against the dense product.
    if std::env::var_os("BURN_SPARSE_COSTS").is_none() {
        Costs::cached().install();
    }
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let (device, sizes) = subject();
    println!("{:<58} {:>11} {:>11} {:>11}", "", "burn-nn", "apart", "packed");
    for &[model, inside] in sizes.features {
        for kind in ["shfl-bw", "balanced"] {
            for sparsity in [0.75, 0.9] {
                let pattern = match kind {
                    "shfl-bw" => Pattern::shfl_bw(sizes.vector),
                    _ => Pattern::balanced(32),
                };
                let name = format!("{model}->{inside} {kind} {:.0} %", 100.0 * sparsity);
                let name = |tokens| format!("{name}, {tokens} tokens");
                let wanted = |name: &str| words.iter().all(|word| name.contains(word.as_str()));
                let tokens = sizes.tokens.iter().filter(|&&tokens| wanted(&name(tokens)));
                let tokens: Vec<usize> = tokens.copied().collect();
                if !tokens.is_empty() {
                    let config = PositionWiseFeedForwardConfig::new(model, inside);
                    let (stock, packed) = blocks(&config, pattern, sparsity, &device);
                    tokens.iter().for_each(|&tokens| time(&name(tokens), &stock, &packed, tokens));
                }
            }
        }
    }
}

#[derive(Module, Debug)]
struct Net {
    block: PositionWiseFeedForward,
}

fn blocks(
    config: &PositionWiseFeedForwardConfig,
    pattern: Pattern,
    sparsity: f64,
    device: &Device,
) -> (Stock, PositionWiseFeedForward) {
    let rule = PruneConfig::new(pattern, sparsity).with_ramp(Ramp::one_shot(Steps(0)));
    let stock = config.init(&device.clone().autodiff());
    let net = Net { block: stock.clone().into() };
    let plan = Plan::new(rule, &net, Horizon::steps(1)).expect("a plan");
    let pruned = plan.attach(net).and_then(|sparse| sparse.finish()).expect("masks");
    (stock.valid(), pruned.pack().valid().block)
}

fn time(name: &str, stock: &Stock, packed: &PositionWiseFeedForward, tokens: usize) {
    let device = stock.linear_inner.weight.device();
    let features = stock.linear_inner.weight.dims()[0];
    let uniform = Distribution::Uniform(-1.0, 1.0);
    let x = Tensor::<2>::random([tokens, features], uniform, &device);
    let apart = |x| {
        let inside = packed.linear_inner.forward_activated(x, Activation::Gelu);
        packed.linear_outer.forward(inside)
    };
    let pass = |forward: &dyn Fn(Tensor<2>) -> Tensor<2>, repeats| {
        // Keeps the outputs alive until the sync: an asynchronous device may skip work whose result was dropped.
        let answers: Vec<_> = (0..repeats).map(|_| black_box(forward(x.clone()))).collect();
        device.sync().expect("a device that works");
        drop(answers);
    };
    let [burn_nn, apart, block] = alternate(
        1,
        [
            &|repeats| pass(&|x| stock.forward(x), repeats),
            &|repeats| pass(&apart, repeats),
            &|repeats| pass(&|x| packed.forward(x), repeats),
        ],
    );
    let (_, ran) = record_dispatch(|| packed.forward(x.clone()));
    let mut kernels: Vec<String> = ran.iter().map(|ran| ran.choice.to_string()).collect();
    kernels.dedup();
    println!(
        "{name:<58} {:>8.1} us {:>8.1} us {:>8.1} us  {:5.2}x  {}",
        1e6 * burn_nn,
        1e6 * apart,
        1e6 * block,
        burn_nn / block,
        kernels.join(" "),
    );
}
