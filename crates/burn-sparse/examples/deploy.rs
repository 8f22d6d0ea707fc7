//! Loads the packed checkpoint of `prune_in_your_loop.rs`, runs it, and prints the kernel of every layer.
//! `cargo run --release -p burn-sparse --example deploy -- model.safetensors`

use burn::module::Module;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Distribution, Tensor};
use burn_sparse::measure::layers;
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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or("model.safetensors".into());
    let device = Device::flex();
    let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).init(&device);
    let checkpoint = Checkpoint::read(&path)?;
    let model = checkpoint.load(Net { hidden: linear(256, 512), head: linear(512, 16) })?;

    let x = Tensor::random([1, 256], Distribution::Default, &device);
    let ran = layers(&model, &checkpoint, || {
        model.forward(x);
    });
    for layer in ran {
        let sparsity = 100.0 * layer.sparsity;
        println!("{}: {} at {sparsity:.1} %: {}", layer.name, layer.pattern, layer.kernel);
    }
    Ok(())
}
