//! A network and a training loop of one's own through the whole loop, in a program: plan, masked training, checkpoint,
//! packed layers, and the kernels that ran.
//!
//! ```text
//! cargo run --release -p burn-sparse --example own_model
//! ```

use std::error::Error;

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn_sparse::checkpoint::{self, Checkpoint, Form, Format, Provenance};
use burn_sparse::nn::{Activation, Linear, LinearConfig};
use burn_sparse::plan::Plan;
use burn_sparse::recipe::Recipe;
use burn_sparse::report::layers;

/// `task` is a name of your choice here. Moments may be in epochs too: the plan is told how many steps one has.
const RECIPE: &str = r#"
    version = 1
    task = "clusters"

    [[prune]]
    except = ["head.*"]
    pattern = { kind = "shfl-bw", vector = 32 }
    sparsity = 0.75
    end = "200 steps"
    every = "20 steps"
"#;

const STEPS: usize = 300;
const FEATURES: usize = 256;
const CLASSES: usize = 16;

/// Layers of `burn_sparse::nn` run sparse kernels once they are packed; burn-nn's train under the same masks.
#[derive(Module, Debug)]
struct Net {
    first: Linear,
    second: Linear,
    head: Linear,
}

impl Net {
    fn new(device: &Device) -> Self {
        let linear = |inputs, outputs| Linear::new(&LinearConfig::new(inputs, outputs), device);
        Self { first: linear(FEATURES, 512), second: linear(512, 512), head: linear(512, CLASSES) }
    }

    /// `[points, FEATURES]` to scores `[points, CLASSES]`.
    fn forward(&self, points: Tensor<2>) -> Tensor<2> {
        let x = self.first.forward_with(points, Activation::Relu);
        let x = self.second.forward_with(x, Activation::Relu);
        self.head.forward(x)
    }
}

/// Points around as many centres as there are classes.
struct Clusters {
    centres: Tensor<2>,
}

impl Clusters {
    fn new() -> Self {
        let normal = Distribution::Normal(0.0, 1.0);
        Self { centres: Tensor::random([CLASSES, FEATURES], normal, &Device::flex()) }
    }

    /// Points `[count, FEATURES]` and their classes `[count]`.
    fn draw(&self, count: usize, device: &Device) -> (Tensor<2>, Tensor<1, Int>) {
        let class = Distribution::Uniform(0.0, CLASSES as f64);
        let classes = Tensor::<1>::random([count], class, &Device::flex()).int();
        let noise = Distribution::Normal(0.0, 3.0);
        let points = self.centres.clone().select(0, classes.clone());
        let points = points + Tensor::random([count, FEATURES], noise, &Device::flex());
        (points.to_device(device), classes.to_device(device))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    device.seed(0);
    let clusters = Clusters::new();

    let recipe: Recipe = RECIPE.parse()?;
    let net = Net::new(&device);
    let plan = Plan::new(&recipe, &net, STEPS)?;
    println!("{plan}");

    let mut sparse = plan.attach(net)?;
    let mut optimizer = AdamWConfig::new().init();
    let loss = CrossEntropyLossConfig::new().init(&device);
    for _ in 0..STEPS {
        let (points, classes) = clusters.draw(128, &device);
        let loss = loss.forward(sparse.inner().forward(points), classes);
        let grads = GradientsParams::from_grads(loss.backward(), sparse.inner());
        sparse = sparse.optimizer_step(&mut optimizer, 1e-3, grads);
    }

    let folder = tempfile::tempdir()?;
    let path = folder.path().join("clusters.safetensors");
    checkpoint::save(&sparse.finish()?, Provenance::default(), &path, Format::Packed)?;

    let device = Device::flex();
    let checkpoint = Checkpoint::read(&path)?;
    let packed = checkpoint.apply(Net::new(&device), Form::Packed)?;
    let (points, classes) = clusters.draw(1024, &device);
    let mut right = 0;
    let ran = layers(&packed, &checkpoint, || {
        let found = packed.forward(points).argmax(1).flatten::<1>(0, 1);
        right = found.equal(classes).int().sum().into_scalar::<i64>();
    });
    for layer in ran {
        println!(
            "{}: {} at {:.1} %: {}",
            layer.name,
            layer.pattern,
            100.0 * layer.sparsity,
            layer.kernel
        );
    }
    println!("read back and packed, {:.1} % of 1024 new points are right", right as f64 / 10.24);
    Ok(())
}
