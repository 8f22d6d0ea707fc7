//! burn-train's training and inference steps of a model under a plan.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleDisplay};
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::optim::{GradientsParams, ModuleOptimizer, MultiGradientsParams};
use burn::train::{InferenceStep, TrainOutput, TrainStep};

use super::filter::filter;
use super::{Sparse, TrainError};

impl<M: TrainStep + Module + ModuleDisplay> TrainStep for Sparse<M> {
    type Input = M::Input;
    type Output = M::Output;

    fn step(&self, item: M::Input) -> TrainOutput<M::Output> {
        self.inner().step(item)
    }

    fn optimize(
        self,
        optim: &mut ModuleOptimizer,
        lr: ModuleLearningRate,
        grads: GradientsParams,
    ) -> Self {
        self.stepped(optim, grads, |inner, optim, grads| inner.optimize(optim, lr, grads))
    }

    /// Steps with the gradients of several devices, which the optimizer sums.
    fn optimize_multi(
        self,
        optim: &mut ModuleOptimizer,
        lr: ModuleLearningRate,
        grads: MultiGradientsParams,
    ) -> Self {
        if self.ranks.size() > 1 {
            self.journal().fault.get_or_insert(TrainError::RankDevices);
            return self;
        }
        let Some(step) = self.step_or_fault() else { return self };
        let mut gradients: BTreeMap<String, Vec<f32>> = BTreeMap::new();
        for (grads, _) in &grads.grads {
            for (name, more) in self.gradients(step, grads) {
                let sum = gradients.entry(name).or_insert_with(|| vec![0.0; more.len()]);
                sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            }
        }
        let filtered = grads.grads.into_iter().enumerate().map(|(index, (grads, device))| {
            // Penalties are added to the sum once.
            (filter(self.inner(), self.plan(), step, grads, index == 0), device)
        });
        let grads = MultiGradientsParams { grads: filtered.collect() };
        self.advance(step, &gradients, optim, |inner, optim| inner.optimize_multi(optim, lr, grads))
    }
}

impl<M: InferenceStep + Module + ModuleDisplay> InferenceStep for Sparse<M> {
    type Input = M::Input;
    type Output = M::Output;

    fn step(&self, item: M::Input) -> M::Output {
        self.inner().step(item)
    }
}
