//! A step on several devices, each with its share of the batch.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use burn::train::{TrainOutput, TrainStep};

/// Steps a copy of the model on every device with its part of the batch: the mean loss, and its gradients on
/// the first device.
///
/// Burn would have the optimizer sum them, and leave every parameter on another device; here the model stays
/// where it is. A part's loss is the mean over its `samples`, of which a sentence has more than one.
///
/// Running statistics are those of all parts, one after the other: with every part they move on, so they depend
/// a little on the number of devices.
pub(super) fn step<M: TrainStep + Module>(
    model: &M,
    devices: &[Device],
    indices: &[usize],
    one: impl Fn(&M, &[usize], &Device) -> TrainOutput<M::Output>,
    loss: impl Fn(&M::Output) -> f64,
    samples: impl Fn(&M::Output) -> usize,
) -> (f64, GradientsParams) {
    // A last batch may have fewer samples than there are devices.
    let parts = indices.chunks(indices.len().div_ceil(devices.len()));
    // All devices work before the first loss is waited for.
    let done: Vec<TrainOutput<M::Output>> = parts
        .zip(devices)
        .map(|(part, device)| one(&model.clone().fork(device), part, device))
        .collect();
    let all: usize = done.iter().map(|output| samples(&output.item)).sum();
    let (mut mean, mut grads) = (0.0, GradientsParams::new());
    for output in done {
        let share = samples(&output.item) as f64 / all as f64;
        mean += loss(&output.item) * share;
        let device = devices[0].clone().inner();
        let mut sum = Sum { share, device, from: output.grads, into: grads };
        model.visit(&mut sum);
        grads = sum.into;
    }
    (mean, grads)
}

/// Adds the gradients of a part of the batch, which are means over that part.
struct Sum {
    share: f64,
    device: Device,
    from: GradientsParams,
    into: GradientsParams,
}

impl ModuleVisitor for Sum {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(grad) = self.from.remove::<D>(param.id) else { return };
        let grad = grad.to_device(&self.device) * self.share;
        let sum = match self.into.remove::<D>(param.id) {
            Some(sum) => sum + grad,
            None => grad,
        };
        self.into.register(param.id, sum);
    }
}
