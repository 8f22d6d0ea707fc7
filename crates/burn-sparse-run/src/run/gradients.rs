//! Gradients of a step: of one batch, or the mean over its parts, which run on several devices or one after the other.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use burn_sparse::distributed::Ranks;

use super::RunError;
use crate::{Loss, scalar};

/// A batch's mean loss and gradients.
pub(super) struct BatchLoss {
    pub(super) loss: f64,
    pub(super) grads: GradientsParams,
    /// Number of predictions: the weight of this batch among those of other ranks.
    pub(super) predictions: usize,
}

/// Returns the mean loss of a batch, and its gradients on the first device; neither for an empty batch.
///
/// Every device takes its share of the batch, at most `most` samples at a time; further parts run one after the other,
/// and their gradients are accumulated. A part's loss is the mean over its predictions, of which a sentence has more than
/// one.
///
/// Burn would let the optimizer sum the gradients of several devices, and leave every parameter on a different device; here
/// the model stays on its device.
///
/// Running statistics are updated by all parts, one after the other, so they depend slightly on the number of parts.
pub(super) fn step<M: Module>(
    model: &M,
    devices: &[Device],
    indices: &[usize],
    most: Option<usize>,
    one: impl Fn(&M, &[usize], &Device) -> Loss,
) -> BatchLoss {
    if indices.is_empty() {
        return BatchLoss { loss: 0.0, grads: GradientsParams::new(), predictions: 0 };
    }
    // The last batch may have fewer samples than there are devices.
    let share = indices.len().div_ceil(devices.len()).max(1);
    let parts: Vec<&[usize]> = indices.chunks(most.map_or(share, |most| most.min(share))).collect();
    if let ([part], [device]) = (&parts[..], devices) {
        let loss = one(model, part, device);
        let (value, predictions) = (scalar(&loss.value), loss.predictions);
        let grads = GradientsParams::from_grads(loss.value.backward(), model);
        return BatchLoss { loss: value, grads, predictions };
    }
    let (mut sum, mut all, mut grads) = (0.0, 0, GradientsParams::new());
    for round in parts.chunks(devices.len()) {
        // Starts all devices before waiting for the first loss.
        let done = round.iter().zip(devices).map(|(part, device)| {
            let replica = match devices {
                [_] => model.clone(),
                _ => model.clone().fork(device),
            };
            let loss = one(&replica, part, device);
            let grads = GradientsParams::from_grads(loss.value.clone().backward(), &replica);
            (loss, grads)
        });
        for (loss, from) in done.collect::<Vec<_>>() {
            let weight = loss.predictions as f64;
            sum += scalar(&loss.value) * weight;
            all += loss.predictions;
            let device = devices[0].clone().inner();
            let mut sum = Sum { weight, device, from, into: grads };
            model.visit(&mut sum);
            grads = sum.into;
        }
    }
    let grads = scaled(model, grads, 1.0 / all as f64);
    BatchLoss { loss: sum / all as f64, grads, predictions: all }
}

/// Scales the gradients down so that their total norm, which `norm` computes, is at most `most` (Pascanu et al., 2013). Gradients
/// whose norm is not finite stay unchanged: the next loss reports them.
///
/// All ranks scale by the norm of rank 0: a sum in several threads may have different bits on another rank.
pub(super) fn clip<M: Module>(
    norm: impl FnOnce(&M, &GradientsParams) -> Result<f64, RunError>,
    model: &M,
    grads: GradientsParams,
    most: f64,
    ranks: &Ranks,
) -> Result<GradientsParams, RunError> {
    let norm = ranks.mean(norm(model, &grads)?, usize::from(ranks.is_first()));
    Ok(if norm > most && norm.is_finite() { scaled(model, grads, most / norm) } else { grads })
}

/// Returns the norm of all gradients together.
pub(super) fn norm<M: Module>(model: &M, grads: &GradientsParams) -> f64 {
    let mut norm = Norm { grads, squares: 0.0 };
    model.visit(&mut norm);
    norm.squares.sqrt()
}

fn scaled<M: Module>(model: &M, grads: GradientsParams, by: f64) -> GradientsParams {
    let mut scale = Scale { by, from: grads, into: GradientsParams::new() };
    model.visit(&mut scale);
    scale.into
}

/// Adds the gradients of a part of the batch, weighted by its number of predictions.
struct Sum {
    weight: f64,
    device: Device,
    from: GradientsParams,
    into: GradientsParams,
}

impl ModuleVisitor for Sum {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(grad) = self.from.remove::<D>(param.id) else { return };
        let grad = grad.to_device(&self.device) * self.weight;
        let sum = match self.into.remove::<D>(param.id) {
            Some(sum) => sum + grad,
            None => grad,
        };
        self.into.register(param.id, sum);
    }
}

struct Scale {
    by: f64,
    from: GradientsParams,
    into: GradientsParams,
}

impl ModuleVisitor for Scale {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(grad) = self.from.remove::<D>(param.id) {
            self.into.register(param.id, grad * self.by);
        }
    }
}

struct Norm<'a> {
    grads: &'a GradientsParams,
    squares: f64,
}

impl ModuleVisitor for Norm<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(grad) = self.grads.get::<D>(param.id) {
            self.squares += scalar(&(grad.clone() * grad).sum());
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Distribution;

    use super::*;

    struct Values(GradientsParams, Vec<f32>);

    impl ModuleVisitor for Values {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let grad = self.0.get::<D>(param.id).expect("a gradient");
            self.1.extend(grad.into_data().try_into_vec::<f32>().unwrap());
        }
    }

    fn values(model: &Linear, grads: GradientsParams) -> Vec<f32> {
        let mut values = Values(grads, Vec::new());
        model.visit(&mut values);
        values.1
    }

    #[test]
    fn parts_of_a_batch_have_the_gradients_of_the_whole() {
        let device = Device::flex().autodiff();
        let model = LinearConfig::new(5, 3).init(&device);
        let x = Tensor::<2>::random([7, 5], Distribution::Default, &device);
        let one = |model: &Linear, part: &[usize], device: &Device| {
            let rows = part.iter().map(|&at| x.clone().narrow(0, at, 1)).collect();
            let x = Tensor::<2>::cat(rows, 0).to_device(device);
            let value = model.forward(x).powi_scalar(2).sum() / part.len() as f64;
            Loss { value, predictions: part.len() }
        };
        let run = |devices: usize, most| {
            let devices = vec![device.clone(); devices];
            let done = step(&model, &devices, &[0, 1, 2, 3, 4, 5, 6], most, one);
            (done.loss, values(&model, done.grads))
        };
        let (loss, whole) = run(1, None);
        for (devices, most) in [(1, Some(2)), (1, Some(1)), (2, None), (2, Some(3)), (9, None)] {
            let (found, parts) = run(devices, most);
            assert!((found - loss).abs() < 1e-6, "{devices} {most:?}");
            for (a, b) in parts.iter().zip(&whole) {
                assert!((a - b).abs() < 1e-5, "{devices} {most:?}");
            }
        }
    }

    #[test]
    fn clipping_limits_the_norm_of_all_gradients_together() {
        let device = Device::flex().autodiff();
        let model = LinearConfig::new(4, 2).init(&device);
        let grads = || {
            let x = Tensor::<2>::ones([3, 4], &device);
            GradientsParams::from_grads(model.forward(x).sum().backward(), &model)
        };
        let norm = |values: &[f32]| values.iter().map(|v| v * v).sum::<f32>().sqrt();
        let alone = Ranks::alone();
        let whole = values(&model, grads());
        // Eight weights and two biases with gradients of 3.
        assert!((norm(&whole) - 90_f32.sqrt()).abs() < 1e-4);
        let clipped = |most| {
            let norm = |model: &_, grads: &_| Ok(super::norm(model, grads));
            values(&model, clip(norm, &model, grads(), most, &alone).unwrap())
        };
        assert!((norm(&clipped(0.5)) - 0.5).abs() < 1e-5);
        assert_eq!(clipped(10.0), whole);
    }
}
