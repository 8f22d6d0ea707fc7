//! Reconstruction of a block: its kept weights are trained together to match the dense block's output.

use std::collections::BTreeSet;
use std::time::Instant;

use burn::module::{Module, Param};
use burn::nn::loss::{MseLoss, Reduction};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Tensor, TensorData};

use super::calibrated::set_values;
use super::sites::{bias_of, floats, read};
use super::walk::{Walk, features};
use super::{Blocks, CalibrateError, Calibrated, CalibratedBlock};
use crate::params::{MapParams, Path, map_params};
use crate::prune::Plan;
use crate::train::TrainError;

/// Learning rate of AdamW at the start; it falls to zero linearly.
const LEARNING_RATE: f64 = 1e-3;

/// Trains the weights of a block, at `indices` in the plan, and their biases, under the masks that were found, and writes the
/// new values to `found` and to the walk's model. Values that do not lower the error are discarded.
pub(super) fn reconstruct<M: Module, B: Blocks<M>>(
    plan: &Plan,
    block: usize,
    indices: &[usize],
    steps: usize,
    walk: &mut Walk<'_, M, B>,
    found: &mut Calibrated,
) -> Result<CalibratedBlock, CalibrateError> {
    let started = Instant::now();
    let mut plan = plan.clone().with_fixed_masks();
    let mut at = 0..;
    plan.weights.retain(|_| at.next().is_some_and(|at| indices.contains(&at)));
    let names = plan.weights.iter().map(|weight| weight.name.clone());
    let trained: BTreeSet<String> = names.flat_map(|name| [bias_of(&name), name]).collect();
    let masks = found.masks.iter().filter(|(name, _)| trained.contains(*name));
    let masks = masks.map(|(name, mask)| (name.clone(), mask.clone())).collect();

    let blocks = walk.blocks;
    let inputs = walk.features(&walk.states)?;
    let targets = walk.targets(block)?;
    let error = |model: &M| -> Result<f64, CalibrateError> {
        let (mut off, mut all) = (0.0, 0.0);
        for (state, target) in walk.states.iter().zip(&targets) {
            let output = features(blocks, &blocks.run(model, block, state))?;
            off += squares(output - target.clone());
            all += squares(target.clone());
        }
        Ok((off / f64::max(all, f64::MIN_POSITIVE)).sqrt())
    };
    let before = error(&walk.pruned)?;

    let model = map_params(walk.pruned.clone().train(), &mut Only(&trained));
    let mut optimizer = AdamWConfig::new().with_weight_decay(0.0).init();
    let mut sparse = plan.attach(model)?.with_masks(masks).pack(&mut optimizer)?;
    for step in 0..steps {
        let at = step % inputs.len();
        let input = blocks.with_features(&walk.states[at], Tensor::from_inner(inputs[at].clone()));
        let output = features(blocks, &blocks.run(sparse.inner(), block, &input))?;
        let target = Tensor::from_inner(targets[at].clone());
        let loss = MseLoss::new().forward(output, target, Reduction::Mean);
        let grads = GradientsParams::from_grads(loss.backward(), sparse.inner());
        let rate = LEARNING_RATE * (1.0 - step as f64 / steps as f64);
        sparse = sparse.optimizer_step(&mut optimizer, rate, grads);
    }
    let mut after = before;
    match sparse.finish() {
        Ok(trained_block) => {
            let values = read(&trained_block.model().valid().materialize(), &trained);
            // All else, such as the statistics of batch normalization that the steps have updated, stays as it was.
            let reconstructed = set_values(walk.pruned.clone(), &values);
            let error = error(&reconstructed)?;
            if error < before {
                found.values.extend(values);
                walk.pruned = reconstructed;
                after = error;
            }
        }
        // Training diverged.
        Err(TrainError::NotFinite { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(CalibratedBlock {
        block,
        weights: plan.weights.iter().map(|weight| weight.name.clone()).collect(),
        error_before: before,
        error: after,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Returns the sum of squares.
fn squares(tensor: Tensor<3>) -> f64 {
    let data: TensorData = tensor.into_data();
    floats(data).into_iter().map(|value| f64::from(value).powi(2)).sum()
}

/// Makes all parameters except these constant.
struct Only<'a>(&'a BTreeSet<String>);

impl MapParams for Only<'_> {
    fn float<const D: usize>(&mut self, path: &Path, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let trained = self.0.contains(&path.name());
        param.set_require_grad(trained)
    }
}
