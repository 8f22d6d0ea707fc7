//! Tests of `Sparse<M>` in burn-train's training loop: the only hook is `TrainStep::optimize`.

use std::path::Path;

use burn::data::dataloader::{DataLoaderBuilder, batcher::Batcher};
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::optim::AdamWConfig;
use burn::store::ModuleRecord;
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::{ExecutionStrategy, Learner, MultiDeviceOptim, SupervisedTraining};
use burn_sparse::train::{Compute, Sparse};
use burn_sparse_models::{ImageBatch, Mlp, MlpConfig};
use burn_sparse_run::recipe::Recipe;

#[derive(Clone)]
struct Batches;

impl Batcher<usize, ImageBatch> for Batches {
    fn batch(&self, items: Vec<usize>, device: &Device) -> ImageBatch {
        let pixels: Vec<f32> =
            items.iter().flat_map(|i| (0..32).map(move |j| ((i * 7 + j) % 11) as f32)).collect();
        let labels: Vec<i32> = items.iter().map(|i| (i % 4) as i32).collect();
        let count = items.len();
        ImageBatch {
            images: Tensor::from_data(TensorData::new(pixels, [count, 32]), device),
            targets: Tensor::from_data(TensorData::new(labels, [count]), device),
        }
    }
}

const RECIPE: &str = r#"
    version = 1
    task = "test"
    [train]
    prune_epochs = 3
    [[prune]]
    except = ["head.*"]
    pattern = { kind = "shfl-bw", vector = 16 }
    sparsity = 0.75
    end = "2 epochs"
    every = "3 steps"
"#;

fn attached(device: &Device, steps_per_epoch: usize) -> Sparse<Mlp> {
    let model = MlpConfig::new(32, 64, 4).init(device);
    let recipe: Recipe = RECIPE.parse().unwrap();
    recipe.plan(&model, steps_per_epoch).unwrap().attach(model).unwrap()
}

/// Trains for three epochs of eight batches.
fn launched(strategy: ExecutionStrategy, sparse: Sparse<Mlp>) -> Sparse<Mlp> {
    launched_in(tempfile::tempdir().unwrap().path(), strategy, sparse)
}

fn launched_in(folder: &Path, strategy: ExecutionStrategy, sparse: Sparse<Mlp>) -> Sparse<Mlp> {
    let device = Device::flex();
    let loader = |device: &Device| {
        let data = InMemDataset::new((0..64).collect::<Vec<usize>>());
        DataLoaderBuilder::new(Batches).batch_size(8).set_device(device.clone()).build(data)
    };
    let result = SupervisedTraining::new(
        folder.to_str().unwrap(),
        loader(&device.clone().autodiff()),
        loader(&device),
    )
    .num_epochs(3)
    .with_default_checkpointers()
    .with_training_strategy(strategy.into())
    .launch(Learner::new(sparse, AdamWConfig::new().init(), 1e-3));
    assert!(result.error.is_none());
    result.model
}

#[test]
fn supervised_training_prunes_and_its_checkpoints_hold_the_masks() {
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let single = ExecutionStrategy::single(device.clone());
    let sparse = launched_in(folder.path(), single, attached(&device, 8));
    assert_eq!(sparse.step().unwrap(), 24);
    assert_eq!(sparse.masks().unwrap().sparsity, 0.75);
    assert!(sparse.clone().num_params() > 0);
    let record = ModuleRecord::load(folder.path().join("checkpoint/model-3.bpk")).unwrap();
    let read = attached(&device, 8).try_load_record(record).unwrap();
    assert_eq!(read.step().unwrap(), 24);
    read.agrees(&sparse).unwrap();
    sparse.finish().unwrap();
}

#[test]
fn supervised_training_goes_on_with_packed_weights() {
    let device = Device::flex().autodiff();
    let model = MlpConfig::new(32, 64, 4).init(&device);
    let recipe: Recipe = RECIPE.parse().unwrap();
    // The hidden layers are 64 wide, the least for which a layer is packed.
    let sparse = recipe.plan(&model, 8).unwrap().attach(model).unwrap();
    let sparse =
        launched(ExecutionStrategy::single(device.clone()), sparse.with_compute(Compute::Packed));
    assert!(sparse.is_packed());
    assert_eq!(sparse.step().unwrap(), 24);
    assert_eq!(sparse.finish().unwrap().sparsity(), 0.75);
}

#[test]
fn supervised_training_on_several_devices_prunes_wherever_its_optimizer_steps() {
    let device = Device::flex().autodiff();
    for optimizer in [MultiDeviceOptim::OptimMainDevice, MultiDeviceOptim::OptimSharded] {
        // The CPU is listed twice; each entry takes half of the batches.
        let strategy = ExecutionStrategy::multi(vec![device.clone(); 2], optimizer);
        let sparse = launched(strategy, attached(&device, 4));
        assert_eq!(sparse.step().unwrap(), 12, "{optimizer:?}");
        assert_eq!(sparse.masks().unwrap().sparsity, 0.75, "{optimizer:?}");
        sparse.finish().unwrap();
    }
}
