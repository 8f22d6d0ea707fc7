//! Reconstruction: the kept weights of a block are trained to the outputs of the dense block.

use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig};
use burn::tensor::{Device, Tensor};
use burn_sparse::calibrate::{Blocks, CalibrateConfig, CalibrateError, Calibrated, Saliency};
use burn_sparse::nn::Linear;
use burn_sparse_tests::calibration::{forward, linear, plan, rule, tokens, values};

/// Two layers with an activation between them, and a residual connection around them.
#[derive(Module, Debug)]
struct Residual {
    inner: Linear,
    outer: Linear,
    scale: Linear,
}

#[derive(Module, Debug)]
struct Residuals {
    blocks: Vec<Residual>,
}

fn residuals() -> Residuals {
    let block = |_| Residual {
        inner: linear(24, 48, true),
        outer: linear(48, 24, true),
        scale: linear(24, 24, false),
    };
    Residuals { blocks: (0..2).map(block).collect() }
}

struct ResidualBlocks;

impl Blocks<Residuals> for ResidualBlocks {
    type State = Tensor<3>;

    fn len(&self, model: &Residuals) -> usize {
        model.blocks.len()
    }

    fn run(&self, model: &Residuals, block: usize, x: &Tensor<3>) -> Tensor<3> {
        let block = &model.blocks[block];
        x.clone() + block.scale.forward(block.outer.forward(block.inner.forward(x.clone()).tanh()))
    }

    fn features(&self, x: &Tensor<3>) -> Option<Tensor<3>> {
        Some(x.clone())
    }

    fn with_features(&self, _x: &Tensor<3>, features: Tensor<3>) -> Tensor<3> {
        features
    }
}

fn sequences() -> Vec<Tensor<3>> {
    let one = |at: usize| tokens(1024, 24).narrow(0, at * 256, 256).reshape([4, 64, 24]);
    (0..4_usize).map(one).collect()
}

#[test]
fn reconstructed_blocks_are_closer_to_the_dense_ones_and_keep_their_masks() {
    let model = residuals();
    let rule = rule("shfl-bw(vector=8)", 0.75).with_except(["*.scale.*"]);
    let plan = plan(&model, &rule);
    let run = |steps: usize| {
        let config = CalibrateConfig::new().with_toward_dense(1.0).with_reconstruct(steps);
        plan.calibrate(&model, &ResidualBlocks, sequences(), &config, |_| ()).unwrap()
    };
    let (plain, found) = (run(0), run(200));
    assert!(plain.blocks().is_empty());
    let reported: Vec<usize> = found.blocks().iter().map(|block| block.block).collect();
    assert_eq!(reported, [0, 1]);
    for block in found.blocks() {
        assert_eq!(block.weights.len(), 2);
        assert!(block.error < 0.95 * block.error_before, "{block:?}");
    }
    let again = run(200);
    let errors = |found: &Calibrated| -> Vec<f64> {
        found.blocks().iter().map(|block| block.error).collect()
    };
    assert_eq!(errors(&found), errors(&again));

    let output = |model: &Residuals| {
        let run = |x, block| ResidualBlocks.run(model, block, &x);
        (0..2).fold(sequences().remove(0), run)
    };
    let dense = output(&model);
    let off = |model: &Residuals| values((output(model) - dense.clone()).powi_scalar(2).sum())[0];
    let [plain, found] =
        [plain, found].map(|found| found.attach(model.clone()).unwrap().finish().unwrap());
    // Masks of the first block are found before anything is trained.
    for (a, b) in plain.weights().iter().zip(found.weights()).take(2) {
        assert_eq!(a.mask, b.mask);
    }
    assert!(off(found.model()) < 0.9 * off(plain.model()));
    let scale = |model: &Residuals| values(model.blocks[1].scale.weight.val());
    assert_eq!(scale(found.model()), scale(&model), "a layer that is not pruned");
}

#[test]
fn a_reconstruction_that_diverges_is_discarded() {
    let model = residuals();
    let plan = plan(&model, &rule("balanced(block=8)", 0.5));
    // Products of these with their gradients are infinite in f32.
    let huge: Vec<Tensor<3>> = sequences().into_iter().map(|x| x * 1e20).collect();
    let run = |steps: usize| {
        let config = CalibrateConfig::new().with_score(Saliency::Magnitude).with_reconstruct(steps);
        plan.calibrate(&model, &ResidualBlocks, huge.clone(), &config, |_| ()).unwrap()
    };
    let (plain, found) = (run(0), run(3));
    for block in found.blocks() {
        assert_eq!(block.error, block.error_before);
    }
    let weights = |found: Calibrated| {
        let model = found.attach(model.clone()).unwrap().finish().unwrap();
        values(model.model().blocks[0].outer.weight.val())
    };
    assert_eq!(weights(found), weights(plain));
}

/// A layer, and the normalization of its outputs.
#[derive(Module, Debug)]
struct Normed {
    inner: Linear,
    norm: BatchNorm,
}

struct NormedBlock;

impl Blocks<Normed> for NormedBlock {
    type State = Tensor<3>;

    fn len(&self, _model: &Normed) -> usize {
        1
    }

    fn run(&self, model: &Normed, _block: usize, x: &Tensor<3>) -> Tensor<3> {
        model.norm.forward(model.inner.forward(x.clone()).swap_dims(1, 2)).swap_dims(1, 2)
    }

    fn features(&self, x: &Tensor<3>) -> Option<Tensor<3>> {
        Some(x.clone())
    }

    fn with_features(&self, _x: &Tensor<3>, features: Tensor<3>) -> Tensor<3> {
        features
    }
}

#[test]
fn the_reported_error_is_that_of_the_model_with_its_own_running_statistics() {
    let norm = BatchNormConfig::new(16).init(&Device::flex());
    let model = Normed { inner: linear(24, 16, true), norm };
    let plan = plan(&model, &rule("balanced(block=8)", 0.75));
    let config = CalibrateConfig::new().with_toward_dense(1.0).with_reconstruct(20);
    let found = plan.calibrate(&model, &NormedBlock, sequences(), &config, |_| ()).unwrap();
    let reported = found.blocks()[0].error;
    let pruned = found.attach(model.clone()).unwrap().finish().unwrap();
    let (mut off, mut all) = (0.0, 0.0);
    for x in sequences() {
        let dense = NormedBlock.run(&model, 0, &x);
        let output = NormedBlock.run(pruned.model(), 0, &x);
        off += values((output - dense.clone()).powi_scalar(2).sum())[0];
        all += values(dense.powi_scalar(2).sum())[0];
    }
    let error = (off / all).sqrt();
    assert!((reported - error).abs() < 1e-4 * error, "{reported} for {error}");
}

#[test]
fn a_model_without_blocks_of_features_is_not_reconstructed() {
    let model = linear(16, 8, true);
    let plan = plan(&model, &rule("unstructured", 0.5));
    let config = CalibrateConfig::new().with_reconstruct(10);
    let found = plan.calibrate(&model, &forward(), vec![tokens(32, 16)], &config, |_| ());
    assert!(matches!(found.unwrap_err(), CalibrateError::NoFeatures));
}
