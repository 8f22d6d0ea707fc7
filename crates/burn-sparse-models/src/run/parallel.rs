//! One step on several devices: each takes its share of the batch.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{GradientsParams, MultiGradientsParams};
use burn::tensor::{Device, Tensor};
use burn::train::{TrainOutput, TrainStep};

/// What a step on several devices leaves to the optimizer.
pub(super) struct Shared {
    /// The mean loss of the batch.
    pub(super) loss: f64,
    pub(super) grads: MultiGradientsParams,
}

/// Steps a copy of the model on every device with its part of the batch; the sum of the gradients is that of
/// the mean loss.
pub(super) fn step<M: TrainStep + Module>(
    model: &M,
    devices: &[Device],
    indices: &[usize],
    one: impl Fn(&M, &[usize], &Device) -> TrainOutput<M::Output>,
    loss: impl Fn(&M::Output) -> f64,
) -> Shared {
    // A last batch may have fewer samples than there are devices.
    let parts = indices.chunks(indices.len().div_ceil(devices.len()));
    // All devices work before the first loss is waited for.
    let done: Vec<_> = parts
        .zip(devices)
        .map(|(part, device)| {
            let replica = model.clone().fork(device);
            let TrainOutput { grads, item } = one(&replica, part, device);
            let share = part.len() as f64 / indices.len() as f64;
            let mut scale = Scale { share, grads };
            replica.visit(&mut scale);
            (item, share, (scale.grads, device.clone().inner()))
        })
        .collect();
    let loss = done.iter().map(|(item, share, _)| loss(item) * share).sum();
    let grads = done.into_iter().map(|(_, _, grads)| grads).collect();
    Shared { loss, grads: MultiGradientsParams { grads } }
}

/// The optimizer sums the gradients of all devices, each a mean over its own part.
struct Scale {
    share: f64,
    grads: GradientsParams,
}

impl ModuleVisitor for Scale {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(grad) = self.grads.remove::<D>(param.id) {
            self.grads.register(param.id, grad * self.share);
        }
    }
}
