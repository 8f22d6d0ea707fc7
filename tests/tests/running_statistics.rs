//! Batch normalization tracks running statistics that are not parameters: a checkpoint written right after a step
//! holds the statistics of that step.

use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Distribution, Tensor};
use burn_sparse::nn::batch_norm_relu;
use burn_sparse::nn::conv::{Conv2d, Conv2dConfig};
use burn_sparse_tests::models::{one_shot, seeded};

#[derive(Module, Debug)]
struct Net {
    conv: Conv2d,
    norm: BatchNorm,
}

impl Net {
    fn new(device: &Device) -> Self {
        let conv = Conv2dConfig::new([3, 8], [3, 3]).init(device);
        Self { conv, norm: BatchNormConfig::new(8).init(device) }
    }
}

fn read<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}

#[test]
fn a_checkpoint_right_after_a_step_holds_its_statistics() {
    let device = Device::flex().autodiff();
    let net = seeded(&device, 3, Net::new);
    let pruned = one_shot(net, "pattern = { kind = \"balanced\", block = 9 }\nsparsity = 0.66");
    let x = Tensor::<4>::random([5, 3, 6, 6], Distribution::Uniform(1.0, 2.0), &device);
    // A training step updates the statistics; the checkpoint is the first to read them.
    drop(pruned.model().norm.forward(pruned.model().conv.forward(x)));
    let checkpoint = pruned.checkpoint();
    let fresh = seeded(&Device::flex(), 4, Net::new);
    let back = checkpoint.load(fresh).unwrap();
    let mean = read(back.norm.running_mean.value());
    assert_eq!(mean, read(pruned.model().norm.running_mean.value_sync()));
    assert!(mean.iter().all(|&mean| mean != 0.0), "{mean:?}");
    assert_ne!(read(back.norm.running_var.value()), [1.0; 8]);
}

#[test]
fn one_operator_counts_the_same_statistics_as_burns_layer() {
    let device = Device::flex().autodiff();
    let [ours, burns] = [(); 2].map(|()| BatchNormConfig::new(3).init(&device));
    for batch in 1..4 {
        let spread = Distribution::Uniform(-1.0, f64::from(batch));
        let x = Tensor::<4>::random([5, 3, 6, 6], spread, &device);
        let (found, expected) = (batch_norm_relu(&ours, x.clone(), None), relu(burns.forward(x)));
        near(&read(found), &read(expected));
        near(&read(ours.running_mean.value_sync()), &read(burns.running_mean.value_sync()));
        near(&read(ours.running_var.value_sync()), &read(burns.running_var.value_sync()));
    }
}

#[test]
fn one_operator_leaves_the_statistics_of_a_frozen_layer() {
    let device = Device::flex().autodiff();
    let norm = BatchNormConfig::new(3).init(&device).freeze();
    let x = Tensor::<4>::random([5, 3, 6, 6], Distribution::Uniform(1.0, 2.0), &device);
    let y = batch_norm_relu(&norm, x.clone(), Some(&x));
    assert_eq!(read(norm.running_mean.value_sync()), [0.0; 3]);
    // With mean 0 and variance 1, the output is the input plus the shortcut, which is the input again.
    near(&read(y), &read(x * 2.0));
}

fn near(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-4, "{found}, not {expected}");
    }
}
