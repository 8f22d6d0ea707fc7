//! Optimizer steps: gradients, the optimizer, and the updates of masks that are due.

use std::collections::BTreeMap;

use burn::module::{Module, ParamId};
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::optim::{GradientsParams, ModuleOptimizer};

use super::forms::{masked, relayed};
use super::{Sparse, lock, step_param};
use crate::prune::PlannedWeight;
use crate::train::filter::filter;
use crate::train::optimizer_state::clear;
use crate::train::packing::Form;
use crate::train::settle::settle;
use crate::train::state::gather_gradients;
use crate::train::update::{Evidence, update};
use crate::train::{Compute, TrainError};

impl<M: Module> Sparse<M> {
    /// Filters gradients, steps the optimizer, and updates masks when the schedule says so. Replaces
    /// `optimizer.step(lr, model, grads)` in a training loop. An update that fails is reported by [`Self::finish`], or at any
    /// time by [`Self::check_updates`].
    #[must_use]
    pub fn optimizer_step(
        self,
        optimizer: &mut ModuleOptimizer,
        lr: impl Into<ModuleLearningRate>,
        grads: GradientsParams,
    ) -> Self {
        let lr = lr.into();
        self.stepped(optimizer, grads, |inner, optimizer, grads| optimizer.step(lr, inner, grads))
    }

    /// Reads the gradients that the update after this step needs.
    pub(in crate::train) fn gradients(
        &self,
        step: usize,
        grads: &GradientsParams,
    ) -> BTreeMap<String, Vec<f32>> {
        let evidence = Evidence { scorer: self.scorer.as_ref(), gradients: &BTreeMap::new() };
        let needs =
            |w: &&PlannedWeight| evidence.scorer(w).needs_gradient() || w.regrow.needs_gradient();
        let needed = self.plan.due(step + 1).filter(needs);
        let names: Vec<&str> = needed.map(|weight| weight.name.as_str()).collect();
        if names.is_empty() {
            return BTreeMap::new();
        }
        gather_gradients(&self.inner, &names, grads)
    }

    /// Takes a step with the gradients of one device; `optimize` steps the model.
    pub(in crate::train) fn stepped(
        self,
        optimizer: &mut ModuleOptimizer,
        grads: GradientsParams,
        optimize: impl FnOnce(M, &mut ModuleOptimizer, GradientsParams) -> M,
    ) -> Self {
        let Some(step) = self.step_or_fault() else { return self };
        let span = tracing::debug_span!("training_step", step);
        let _entered = span.enter();
        let Some(grads) = self.averaged(grads) else { return self };
        let gradients = self.gradients(step, &grads);
        let grads = filter(&self.inner, &self.plan, step, grads, true);
        let optimize = |inner, optimizer: &mut _| optimize(inner, optimizer, grads);
        self.advance(step, &gradients, optimizer, optimize).equalized()
    }

    /// Returns the step counter. If the device fails, records the error and returns `None`: without a counter no
    /// schedule can be followed.
    pub(in crate::train) fn step_or_fault(&self) -> Option<usize> {
        self.step().map_err(|error| self.journal().fault.get_or_insert(error).clone()).ok()
    }

    /// Steps the model with `optimize`, counts the step, and makes the updates that are due.
    pub(in crate::train) fn advance(
        self,
        step: usize,
        gradients: &BTreeMap<String, Vec<f32>>,
        optimizer: &mut ModuleOptimizer,
        optimize: impl FnOnce(M, &mut ModuleOptimizer) -> M,
    ) -> Self {
        // By value: the optimizer changes weights in place if nothing else holds them.
        let Self {
            inner,
            step: counter,
            host_step: _,
            plan,
            journal,
            scorer,
            compute,
            packed,
            ranks,
        } = self;
        let step = step + 1;
        let counter = step_param(next_id(counter.id), step, &counter.lazy_device());
        tracing::debug!(step, "optimizer step");
        let evidence = Evidence { scorer: scorer.as_ref(), gradients };
        let mut inner = settle(optimize(inner, optimizer), &plan);
        let mut packed = packed;
        if plan.due(step).next().is_some()
            && let Some(weights) = packed.take().filter(|weights| !weights.is_empty())
        {
            match relayed(optimizer, &inner, &weights, Form::Masked, step) {
                Ok(relaid) => {
                    *optimizer = relaid;
                    inner = masked(inner, &plan, &weights);
                }
                // The model stays packed: after a fault masks do not change.
                Err(fault) => {
                    lock(&journal).fault.get_or_insert(fault);
                    packed = Some(weights);
                }
            }
        }
        let (inner, surviving) = update(inner, &plan, step, &evidence, &mut lock(&journal));
        if !surviving.is_empty() {
            match clear(optimizer, &inner, &surviving) {
                Ok(cleared) => *optimizer = cleared,
                Err(error) => {
                    let fault = TrainError::OptimizerState { step, reason: error.to_string() };
                    lock(&journal).fault.get_or_insert(fault);
                }
            }
        }
        let host_step = (counter.id, step);
        let next =
            Self { inner, host_step, step: counter, plan, journal, scorer, compute, packed, ranks };
        match compute {
            Compute::Masked => next,
            Compute::Packed => {
                let (next, error) = next.packed(optimizer);
                if let Some(error) = error {
                    next.journal().fault.get_or_insert(error);
                }
                next
            }
        }
    }
}

/// Returns the id of the next step's counter: a function of this one, so that records are reproducible. (Knuth's
/// linear congruential generator, which does not repeat.)
fn next_id(id: ParamId) -> ParamId {
    ParamId::from(
        id.val().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407),
    )
}
