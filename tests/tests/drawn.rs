//! A task that draws random numbers at every step, in the data and in the model: augmented batches, dropout, and
//! running statistics. (A single test in a separate process, because the CPU has only one random number stream.)

use std::ops::Range;
use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig};
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};
use burn_sparse::distributed::Ranks;
use burn_sparse::nn::conv::{Conv2d, Conv2dConfig};
use burn_sparse::nn::{Activation, Linear, LinearConfig};
use burn_sparse_datasets::DatasetError;
use burn_sparse_models::PictureBatch;
use burn_sparse_run::recipe::Recipe;
use burn_sparse_run::run::{Begin, DataSource, RunFolder, TrainOptions};
use burn_sparse_run::{Classification, Samples};
use burn_sparse_tests::sessions::train_in_sessions;
use rand::RngExt;

const RECIPE: &str = r#"
version = 1
task = "drawn"
seed = 5

[train]
dense_epochs = 1
prune_epochs = 2
batch_size = 8

[[prune]]
params = ["conv.weight", "head.weight"]
pattern = { kind = "balanced", block = 9 }
sparsity = 0.66
end = "1 epochs"
every = "2 steps"
regrow = "straight-through"
"#;

const TRAIN: usize = 44;
const TEST: usize = 20;
const PIXELS: usize = 3 * 5 * 5;

#[derive(Module, Debug)]
struct Net {
    conv: Conv2d,
    norm: BatchNorm,
    dropout: Dropout,
    head: Linear,
}

impl Net {
    fn classify(&self, batch: PictureBatch) -> ClassificationOutput {
        let x = self.norm.forward(self.conv.forward_activated(batch.images, Activation::Relu));
        let scores = self.head.forward(self.dropout.forward(x).flatten(1, 3));
        let loss = burn::nn::loss::CrossEntropyLossConfig::new()
            .init(&scores.device())
            .forward(scores.clone(), batch.targets.clone());
        ClassificationOutput::new(loss, scores, batch.targets)
    }
}

impl TrainStep for Net {
    type Input = PictureBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: PictureBatch) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Net {
    type Input = PictureBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: PictureBatch) -> ClassificationOutput {
        self.classify(batch)
    }
}

struct Drawn;

impl Classification for Drawn {
    type Model = Net;
    type Data = ();

    fn name(&self) -> &'static str {
        "drawn"
    }

    fn load(&self, _folder: Option<&Path>, _seed: u64) -> Result<(), DatasetError> {
        Ok(())
    }

    fn model(&self, device: &Device) -> Net {
        let model = Net {
            conv: Conv2dConfig::new([3, 4], [3, 3]).init(device),
            norm: BatchNormConfig::new(4).init(device),
            dropout: DropoutConfig::new(0.4).init(),
            head: LinearConfig::new(36, 3).init(device),
        };
        model.visit(&mut Read);
        model
    }

    fn train_len(&self) -> usize {
        TRAIN
    }

    fn batch(&self, _data: &(), samples: Samples<'_>, device: &Device) -> PictureBatch {
        let varied = |&index: &usize| {
            let shift = samples.random(index).random_range(-0.5..0.5_f32);
            (index, shift)
        };
        batch(samples.indices.iter().map(varied), device)
    }

    fn test_len(&self, _data: &()) -> usize {
        TEST
    }

    fn test_batch(&self, _data: &(), range: Range<usize>, device: &Device) -> PictureBatch {
        batch(range.map(|index| (TRAIN + index, 0.0)), device)
    }
}

fn batch(samples: impl Iterator<Item = (usize, f32)>, device: &Device) -> PictureBatch {
    let (mut pixels, mut classes) = (Vec::new(), Vec::new());
    for (index, shift) in samples {
        let class = index % 3;
        let pixel = |at: usize| {
            let noise = ((index * 7919 + at * 104_729) % 1009) as f32 / 1009.0;
            shift + noise + if at % 3 == class { 1.0 } else { 0.0 }
        };
        pixels.extend((0..PIXELS).map(pixel));
        classes.push(class as i32);
    }
    let count = classes.len();
    PictureBatch {
        images: Tensor::from_data(TensorData::new(pixels, [count, 3, 5, 5]), device),
        targets: Tensor::<1, Int>::from_data(TensorData::new(classes, [count]), device),
    }
}

struct Read;

impl ModuleVisitor for Read {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        param.val();
    }
}

/// Trains on `devices` devices, stopping and resuming after every `steps` steps; returns the losses and the checkpoint.
fn run(folder: &Path, devices: usize, steps: usize) -> (Vec<f64>, Vec<u8>) {
    let recipe: Recipe = RECIPE.parse().unwrap();
    let (source, folder) = (DataSource::new(None), RunFolder::new(folder));
    let devices = vec![Device::flex(); devices];
    let options = TrainOptions {
        task: &Drawn,
        recipe: &recipe,
        source: &source,
        folder: &folder,
        begin: Begin::Fresh,
        devices: &devices,
        ranks: &Ranks::alone(),
    };
    // Random numbers drawn before a session must not affect it.
    let before = |steps| devices[0].seed(steps as u64);
    let (_, losses) = train_in_sessions(options, steps, before).unwrap();
    (losses, std::fs::read(folder.checkpoint()).unwrap())
}

#[test]
fn a_run_that_draws_at_every_step_goes_on_with_the_same_bits_wherever_it_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    for devices in [1, 2] {
        let run =
            |steps: usize| run(&folder.path().join(format!("{devices}-{steps}")), devices, steps);
        let whole = run(usize::MAX);
        assert_eq!(whole.0.len(), 3 * TRAIN.div_ceil(8));
        for steps in [1, 4, 7] {
            let cut = run(steps);
            let what = format!("{devices} devices, stopped after every {steps} steps");
            assert_eq!(cut.0, whole.0, "losses, {what}");
            assert!(cut.1 == whole.1, "checkpoints differ, {what}");
        }
    }
}
