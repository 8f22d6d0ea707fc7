//! Benchmarks one step of an LSTM and a sequence of 32: burn-nn's layer, ours with dense weights, and ours packed.
//! `cargo bench --workspace --bench recurrent [-- WORD ...]`.

use std::hint::black_box;

use burn::module::Module;
use burn::tensor::{Device, Distribution, Tensor};
use burn_sparse::measure::alternate;
use burn_sparse::nn::{Lstm, LstmConfig, LstmState, record_dispatch};
use burn_sparse::prelude::*;

/// Same global allocator as the command-line program; see there for the reason.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    Costs::cached().install();
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    println!("{:<58} {:>11} {:>11} {:>11}", "", "burn-nn", "dense", "packed");
    for hidden in [256, 512, 1024, 1500] {
        for pattern in [Pattern::balanced(32), Pattern::shfl_bw(32)] {
            for sparsity in [0.75, 0.9] {
                for (batch, steps) in [(1, 1), (32, 1), (1, 32), (32, 32)] {
                    let kind = pattern.to_string();
                    let name = format!(
                        "LSTM {hidden} {kind} {:.0} % batch {batch} steps {steps}",
                        100.0 * sparsity
                    );
                    if words.iter().all(|word| name.contains(word.as_str())) {
                        time(&name, hidden, pattern, sparsity, batch, steps);
                    }
                }
            }
        }
    }
}

#[derive(Module, Debug)]
struct Layer {
    lstm: Lstm,
}

fn time(name: &str, hidden: usize, pattern: Pattern, sparsity: f64, batch: usize, steps: usize) {
    let device = Device::flex();
    let config = LstmConfig::new(hidden, hidden, true);
    let stock = burn::nn::LstmConfig::new(hidden, hidden, true).init(&device);
    let dense = config.init(&device);
    let dense = dense.try_load_record(stock.clone().into_record()).expect("the same record");
    let rule = PruneConfig::new(pattern, sparsity).with_ramp(Ramp::one_shot(Steps(0)));
    let layer = Layer { lstm: dense.clone() }.to_device(&device.clone().autodiff());
    let plan = Plan::new(rule, &layer, Horizon::steps(1)).expect("a plan");
    let pruned = plan.attach(layer).and_then(|sparse| sparse.finish()).expect("masks");
    let packed = pruned.pack().valid().lstm;

    let x = Tensor::<3>::random([batch, steps, hidden], Distribution::Uniform(-1.0, 1.0), &device);
    let state = || {
        let zeros = || Tensor::<2>::zeros([batch, hidden], &device);
        Some(LstmState::new(zeros(), zeros()))
    };
    let [burn_nn, ours, sparse] = alternate(
        1,
        [
            &|repeats| {
                (0..repeats).for_each(|_| drop(black_box(stock.forward(x.clone(), state()))));
            },
            &|repeats| {
                (0..repeats).for_each(|_| drop(black_box(dense.forward(x.clone(), state()))));
            },
            &|repeats| {
                (0..repeats).for_each(|_| drop(black_box(packed.forward(x.clone(), state()))));
            },
        ],
    );
    let (_, ran) = record_dispatch(|| packed.forward(x.clone(), state()));
    let mut kernels: Vec<String> = ran.iter().map(|ran| ran.choice.to_string()).collect();
    kernels.dedup();
    println!(
        "{name:<58} {:>8.1} us {:>8.1} us {:>8.1} us  {:5.2}x, {:5.2}x  {}",
        1e6 * burn_nn,
        1e6 * ours,
        1e6 * sparse,
        burn_nn / sparse,
        ours / sparse,
        kernels.join(" "),
    );
}
