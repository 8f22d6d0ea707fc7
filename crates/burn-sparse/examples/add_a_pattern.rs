//! Adds a pattern: wrapped diagonals that are kept or dropped whole, selected by a `Scorer` and packed as unstructured.
//! `cargo run --release -p burn-sparse --example add_a_pattern`

use std::collections::BTreeSet;

use burn::module::Module;
use burn::tensor::{Device, Distribution, Tensor};
use burn_sparse::nn::{Linear, LinearConfig, record_dispatch};
use burn_sparse::prelude::*;
use burn_sparse::train::{ScoreInput, Scorer};

const INPUTS: usize = 1024;
const OUTPUTS: usize = 1024;

/// Returns the index of the wrapped diagonal through a weight of the square matrix.
fn diagonal(input: usize, output: usize) -> usize {
    (INPUTS - input + output) % OUTPUTS
}

/// Scores every weight by the magnitude of its diagonal, so that the highest scores are whole diagonals.
#[derive(Debug)]
struct Diagonals;

impl Scorer for Diagonals {
    fn score(&self, weight: &ScoreInput<'_>) -> Vec<f32> {
        let mut sums = vec![0.0; OUTPUTS];
        // `Linear` stores `[inputs, outputs]`.
        for (at, value) in weight.values.iter().enumerate() {
            sums[diagonal(at / OUTPUTS, at % OUTPUTS)] += value.abs();
        }
        (0..weight.values.len()).map(|at| sums[diagonal(at / OUTPUTS, at % OUTPUTS)]).collect()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex().autodiff();
    let model: Linear = LinearConfig::new(INPUTS, OUTPUTS).init(&device);
    let pruning =
        PruneConfig::new(Pattern::unstructured(), 0.9375).with_ramp(Ramp::one_shot(Steps(1)));
    let plan = Plan::new(&pruning, &model, Horizon::steps(1))?;
    let model = plan.attach(model)?.with_scorer(Diagonals);

    // Train here; this example takes one step without a gradient.
    let mut optimizer = burn::optim::AdamWConfig::new().init();
    let model = model.optimizer_step(&mut optimizer, 1e-3, Default::default()).finish()?;

    let mask = &model.weights()[0].mask;
    let kept = |row: usize| {
        (0..INPUTS).filter(move |&col| mask.get(row, col)).map(move |col| diagonal(col, row))
    };
    let of_first: BTreeSet<usize> = kept(0).collect();
    assert!((0..OUTPUTS).all(|row| kept(row).collect::<BTreeSet<_>>() == of_first));
    let x = Tensor::<2>::random([1, INPUTS], Distribution::Default, &Device::flex());
    let (_, ran) = record_dispatch(|| model.pack().valid().forward(x));
    println!("{} diagonals are kept; {} ran", of_first.len(), ran[0].choice);
    Ok(())
}
