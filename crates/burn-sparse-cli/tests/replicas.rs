//! Tests of replicas as in burn-train's `ddp`. Burn never marks a CPU tensor as distributed, so these tests need a
//! GPU or a software device in its place.
#![cfg(feature = "wgpu")]

use burn::module::{Module, ModuleMapper, Param};
use burn::optim::AdamWConfig;
use burn::tensor::{Device, DeviceKind, Tensor, TensorData};
use burn::train::TrainStep;
use burn_sparse::prelude::*;
use burn_sparse::train::TrainError;
use burn_sparse_models::{ImageBatch, MlpConfig};

/// Marks every parameter as distributed, as `ddp` does to the model of every device.
struct Distribute;

impl ModuleMapper for Distribute {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, tensor, mapper) = param.consume();
        Param::from_mapped_value(id, tensor.set_distributed(id), mapper)
    }
}

fn batch(from: usize, device: &Device) -> ImageBatch {
    let pixels: Vec<f32> = (0..8 * 32).map(|i| ((from * 7 + i * 5) % 11) as f32).collect();
    let labels: Vec<i32> = (0..8).map(|i| ((from + i) % 4) as i32).collect();
    ImageBatch {
        images: Tensor::from_data(TensorData::new(pixels, [8, 32]), device),
        targets: Tensor::from_data(TensorData::new(labels, [8]), device),
    }
}

/// Trains two copies of a model in turns. Both see the same batch if `synchronized`, which is equivalent to the
/// gradient synchronization of `ddp`.
fn replicas(synchronized: bool) -> [Result<(), TrainError>; 2] {
    let device = Device::wgpu(DeviceKind::DefaultDevice).autodiff();
    let model = MlpConfig::new(32, 64, 4).init(&device);
    let pruning = PruneConfig::new(Pattern::shfl_bw(16), 0.75)
        .with_except(["head.*"])
        .with_regrow(Regrow::StraightThrough)
        .with_ramp(Ramp::cubic(Steps(6)).with_every(Steps(3)));
    let plan = Plan::new(&pruning, &model, Horizon::steps(8)).unwrap();
    let sparse = plan.attach(model).unwrap();
    let mut replicas = [0, 32].map(|from| {
        let replica = sparse.clone().fork(&device).map(&mut Distribute);
        (from, Some(replica), AdamWConfig::new().init())
    });
    for step in 0..6 {
        for (from, replica, optimizer) in &mut replicas {
            let from = if synchronized { 0 } else { *from };
            *replica = replica.take().map(|replica| {
                let output = TrainStep::step(&replica, batch(from + step, &device));
                replica.optimize(optimizer, 1e-2.into(), output.grads)
            });
        }
    }
    replicas.map(|(_, replica, _)| replica.unwrap().finish().map(|_| ()))
}

#[test]
fn replicas_of_synchronized_gradients_have_equal_masks_and_finish() {
    for finished in replicas(true) {
        finished.unwrap();
    }
}

#[test]
fn replicas_whose_gradients_differ_do_not_finish() {
    for finished in replicas(false) {
        let error = finished.unwrap_err().to_string();
        assert!(error.contains("on another device"), "{error}");
    }
}
