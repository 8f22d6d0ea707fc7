//! A custom training loop, without burn-train's traits.

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn::train::TrainStep;
use burn_sparse::train::Sparse;
use burn_sparse_models::{ImageBatch, Mlp, MlpConfig};
use burn_sparse_run::recipe::Recipe;

/// Recipe with gradient-based regrowth, so that every part of a step is exercised.
const RECIPE: &str = r#"
    version = 1
    task = "test"
    [[prune]]
    pattern = { kind = "balanced", block = 8 }
    sparsity = 0.5
    end = "6 steps"
    every = "2 steps"
    regrow = { fraction = 0.3, score = "gradient" }
"#;

fn batch(device: &Device) -> (Tensor<2>, Tensor<1, Int>) {
    let images = Tensor::random([8, 32], Distribution::Normal(0.0, 1.0), device);
    let targets: Tensor<1> = Tensor::random([8], Distribution::Uniform(0.0, 4.0), device);
    (images, targets.int())
}

fn trained(sparse: Sparse<Mlp>, step: impl FnMut(Sparse<Mlp>, usize) -> Sparse<Mlp>) -> Vec<u8> {
    let sparse = (0..8).fold(sparse, step);
    assert_eq!(sparse.masks().unwrap().sparsity, 0.5);
    sparse.into_record().into_bytes().unwrap().to_vec()
}

#[test]
fn a_loop_of_ones_own_ends_with_the_bits_of_a_train_step() {
    let device = Device::flex().autodiff();
    let model = MlpConfig::new(32, 64, 4).init(&device);
    let recipe: Recipe = RECIPE.parse().unwrap();
    let plan = recipe.plan(&model, 8).unwrap();
    let sparse = plan.attach(model).unwrap();
    device.seed(3);
    let batches: Vec<_> = (0..8).map(|_| batch(&device)).collect();

    let mut optimizer = AdamWConfig::new().init();
    let expected = trained(sparse.clone(), |sparse, at| {
        let (images, targets) = batches[at].clone();
        let output = TrainStep::step(&sparse, ImageBatch { images, targets });
        sparse.optimize(&mut optimizer, 1e-3.into(), output.grads)
    });

    let mut optimizer = AdamWConfig::new().init();
    let loss = CrossEntropyLossConfig::new().init(&device);
    let found = trained(sparse, |sparse, at| {
        let (images, targets) = batches[at].clone();
        let loss = loss.forward(sparse.inner().forward(images), targets);
        let grads = GradientsParams::from_grads(loss.backward(), sparse.inner());
        sparse.optimizer_step(&mut optimizer, 1e-3, grads)
    });
    assert!(found == expected, "the records differ");
}
