//! Prunes a model in a training loop of your own, and saves a packed checkpoint that `deploy.rs` loads.
//! `cargo run --release -p burn-sparse --example prune_in_your_loop -- model.safetensors`

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn_sparse::nn::{Linear, LinearConfig};
use burn_sparse::prelude::*;

#[derive(Module, Debug)]
struct Net {
    hidden: Linear,
    head: Linear,
}

impl Net {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.head.forward(relu(self.hidden.forward(x)))
    }
}

/// Noisy points around 16 centres, and the index of the centre of each.
fn batch(centres: &Tensor<2>, device: &Device) -> (Tensor<2>, Tensor<1, Int>) {
    let classes = Tensor::<1>::random([128], Distribution::Uniform(0.0, 16.0), device).int();
    let noise = Tensor::random([128, 256], Distribution::Normal(0.0, 2.0), device);
    (centres.clone().select(0, classes.clone()) + noise, classes)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or("model.safetensors".into());
    let device = Device::flex().autodiff();
    let centres = Tensor::random([16, 256], Distribution::Normal(0.0, 1.0), &device);
    let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).init(&device);
    let model = Net { hidden: linear(256, 512), head: linear(512, 16) };

    let pruning = PruneConfig::new(Pattern::shfl_bw(32), 0.75)
        .with_except(["head.*"])
        .with_ramp(Ramp::cubic(Steps(200)).with_every(Steps(20)));
    let plan = Plan::new(&pruning, &model, Horizon::steps(300))?;
    println!("{plan}");
    let mut model = plan.attach(model)?;
    let mut optimizer = AdamWConfig::new().init();
    let loss = CrossEntropyLossConfig::new().init(&device);
    for _ in 0..300 {
        let (x, classes) = batch(&centres, &device);
        let loss = loss.forward(model.inner().forward(x), classes);
        let grads = GradientsParams::from_grads(loss.backward(), model.inner());
        model = model.optimizer_step(&mut optimizer, 1e-3, grads);
    }
    model.finish()?.save(&path)?;
    println!("{path}: all masks verified, packed");
    Ok(())
}
