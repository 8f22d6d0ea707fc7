use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::module::{Module, ModuleDisplay, Param, ParamId};
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::optim::{GradientsParams, ModuleOptimizer, MultiGradientsParams};
use burn::tensor::{Int, Tensor};
use burn::train::{InferenceStep, TrainOutput, TrainStep};

use super::filter::filter;
use super::gather::{Change, apply, gather, gather_gradients};
use super::masked::{AttachMasks, ids};
use super::optimizer_state::clear;
use super::settle::settle;
use super::update::{Evidence, update};
use super::{Journal, Pruned, PrunedWeight, Scorer, TrainError, pruned};
use crate::plan::{Plan, PlannedWeight};

/// A model under a plan: still a Burn module, and still a `TrainStep` where the model is one.
///
/// [`TrainStep::optimize`] filters gradients, steps the optimizer and updates masks when the schedule
/// says so. The step counter, masks and row orders are part of the module's record. Where an update clears
/// some of the optimizer's state (`[after] optimizer_state`), Burn reads all of it back on its default device,
/// from where the next step moves it: in a build with CUDA on a machine without, set `BURN_DEVICE`.
///
/// A loop of one's own, of any module, needs the same three lines as ever; [`Self::optimizer_step`] takes the place of
/// `optimizer.step` (whole: `examples/own_model.rs`):
///
/// ```ignore
/// let loss = loss.forward(sparse.inner().forward(x), targets);
/// let grads = GradientsParams::from_grads(loss.backward(), sparse.inner());
/// sparse = sparse.optimizer_step(&mut optimizer, rate, grads);
/// let pruned = sparse.finish()?; // after the last step
/// ```
#[derive(Module, Debug)]
pub struct Sparse<M: Module> {
    inner: M,
    step: Param<Tensor<1, Int>>,
    #[module(skip)]
    plan: Arc<Plan>,
    // Shared by clones on purpose: burn-train clones the model at every step.
    #[module(skip)]
    journal: Arc<Mutex<Journal>>,
    #[module(skip)]
    scorer: Option<Arc<dyn Scorer>>,
}

/// What the masks of a model are.
#[derive(Debug, Clone, PartialEq)]
pub struct Masks {
    /// The share of zeros of all planned weights.
    pub sparsity: f64,
    /// That of the weights of each pattern.
    pub patterns: BTreeMap<String, f64>,
    /// The hash of each mask, by path.
    pub hashes: BTreeMap<String, String>,
}

impl<M: Module> Sparse<M> {
    pub(crate) fn new(model: M, plan: Plan) -> Result<Self, TrainError> {
        let device = model.devices().into_iter().next().unwrap_or_default();
        let inner = model.apply_reparameterization(AttachMasks { weights: &plan.weights });
        let mut journal = Journal::default();
        let evidence = Evidence { scorer: None, gradients: &BTreeMap::new() };
        // No step has been taken, so no optimizer has a state.
        let (inner, _) = update(inner, &plan, 0, &evidence, &mut journal);
        if let Some(fault) = journal.fault {
            return Err(fault);
        }
        Ok(Self {
            inner,
            step: Param::initialized(ParamId::new(), ids(vec![0], &device)),
            plan: Arc::new(plan),
            journal: Arc::new(Mutex::new(journal)),
            scorer: None,
        })
    }

    /// Puts these masks and row orders in place, by path; what they drop becomes zero.
    pub(crate) fn with_masks(mut self, masks: &BTreeMap<String, (Vec<u8>, Vec<u32>)>) -> Self {
        let change = |(name, (keep, row_order)): (&String, &(Vec<u8>, Vec<u32>))| {
            let (keep, row_order) = (keep.clone(), row_order.clone());
            let stays = Some(keep.clone());
            (name.clone(), Change { stays, keep, row_order, state_stays: None })
        };
        self.inner = apply(self.inner, &masks.iter().map(change).collect());
        self
    }

    /// Ranks all weights by this scorer from now on, instead of the recipe's score.
    pub fn with_scorer(mut self, scorer: Arc<dyn Scorer>) -> Self {
        self.scorer = Some(scorer);
        self
    }

    /// The model; its weights are masked wherever they are read.
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// The plan it runs under.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Optimizer steps since pruning started.
    pub fn step(&self) -> usize {
        self.step
            .val()
            .into_data()
            .convert::<i64>()
            .try_into_vec()
            .map_or(0, |v: Vec<i64>| v[0] as usize)
    }

    /// Whether all mask updates have succeeded so far.
    ///
    /// # Errors
    /// The error of the update that failed; masks stay as they were then.
    pub fn sound(&self) -> Result<(), TrainError> {
        self.journal().fault.clone().map_or(Ok(()), Err)
    }

    /// What mask updates have done since the last call.
    ///
    /// # Errors
    /// The error of the update that failed, if one has; masks stay as they were then.
    pub fn take_journal(&self) -> Result<Journal, TrainError> {
        let mut journal = self.journal();
        match &journal.fault {
            Some(fault) => Err(fault.clone()),
            None => Ok(journal.take()),
        }
    }

    /// What all masks are now.
    ///
    /// # Errors
    /// When a mask that is final breaks its pattern.
    pub fn masks(&self) -> Result<Masks, TrainError> {
        let found = pruned::weights(&self.inner, &self.plan, self.step())?;
        let mut patterns: BTreeMap<String, Vec<&PrunedWeight>> = BTreeMap::new();
        for weight in &found {
            patterns.entry(weight.pattern.to_string()).or_default().push(weight);
        }
        let sparsity = |(pattern, weights): (String, Vec<&PrunedWeight>)| {
            (pattern, pruned::sparsity(weights.iter().copied()))
        };
        Ok(Masks {
            sparsity: pruned::sparsity(&found),
            patterns: patterns.into_iter().map(sparsity).collect(),
            hashes: found.iter().map(|w| (w.name.clone(), w.mask.hash())).collect(),
        })
    }

    /// Compares the masks of a replica that steps on its own: they are computed from weights alone, so they
    /// are equal unless the weights are not. Under burn-train's `ddp` every update compares them by itself, and
    /// a difference is an error as any other of an update ([`Self::sound`], [`Self::finish`]).
    ///
    /// # Errors
    /// Names the first parameter whose masks differ.
    pub fn agrees(&self, replica: &Self) -> Result<(), TrainError> {
        let (here, there) = (self.masks()?.hashes, replica.masks()?.hashes);
        for ((name, expected), found) in here.into_iter().zip(there.into_values()) {
            if expected != found {
                return Err(TrainError::Replicas { name, expected, found });
            }
        }
        Ok(())
    }

    /// What [`TrainStep::optimize`] does, for models that are no `TrainStep`: filters gradients, steps the optimizer,
    /// and updates masks when the schedule says so.
    pub fn optimizer_step(
        self,
        optimizer: &mut ModuleOptimizer,
        rate: impl Into<ModuleLearningRate>,
        grads: GradientsParams,
    ) -> Self {
        let rate = rate.into();
        self.stepped(optimizer, grads, |inner, optimizer, grads| optimizer.step(rate, inner, grads))
    }

    /// Proves that every mask obeys its pattern at its target, and gives the model back.
    ///
    /// # Errors
    /// When the ramp has not ended, an update failed, or a mask is not what was planned.
    pub fn finish(self) -> Result<Pruned<M>, TrainError> {
        self.take_journal()?;
        let (step, end) = (self.step(), self.plan.end());
        if step < end {
            return Err(TrainError::Unfinished { step, end });
        }
        let names: Vec<&str> = self.plan.weights.iter().map(|w| w.name.as_str()).collect();
        pruned::refuse_non_finite(&gather(&self.inner, &names), &self.plan, step)?;
        Pruned::new(self.inner, &self.plan, step)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        lock(&self.journal)
    }

    /// The gradients that the scores of the update after this step need.
    fn gradients(&self, step: usize, grads: &GradientsParams) -> BTreeMap<String, Vec<f32>> {
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

    /// A step with the gradients of one device, by `optimize`.
    fn stepped(
        self,
        optimizer: &mut ModuleOptimizer,
        grads: GradientsParams,
        optimize: impl FnOnce(M, &mut ModuleOptimizer, GradientsParams) -> M,
    ) -> Self {
        let step = self.step();
        let span = tracing::debug_span!("training_step", step);
        let _entered = span.enter();
        let gradients = self.gradients(step, &grads);
        let grads = filter(&self.inner, &self.plan, step, grads, true);
        self.advance(step, &gradients, optimizer, |inner, optimizer| {
            optimize(inner, optimizer, grads)
        })
    }

    /// Steps the model by `optimize`, then counts the step and makes the updates that are due.
    fn advance(
        self,
        step: usize,
        gradients: &BTreeMap<String, Vec<f32>>,
        optimizer: &mut ModuleOptimizer,
        optimize: impl FnOnce(M, &mut ModuleOptimizer) -> M,
    ) -> Self {
        // By value: the optimizer changes weights in place where nobody else holds them.
        let Self { inner, step: counter, plan, journal, scorer } = self;
        let step = step + 1;
        let device = counter.lazy_device();
        let counter = Param::initialized(counter.id, ids(vec![step as u32], &device));
        tracing::debug!(step, "optimizer step");
        let evidence = Evidence { scorer: scorer.as_ref(), gradients };
        let inner = settle(optimize(inner, optimizer), &plan);
        let (inner, staying) = update(inner, &plan, step, &evidence, &mut lock(&journal));
        if !staying.is_empty() {
            match clear(optimizer, &inner, &staying) {
                Ok(cleared) => *optimizer = cleared,
                Err(error) => {
                    let fault = TrainError::OptimizerState { step, reason: error.to_string() };
                    lock(&journal).fault.get_or_insert(fault);
                }
            }
        }
        Self { inner, step: counter, plan, journal, scorer }
    }
}

fn lock(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M: TrainStep + Module + ModuleDisplay> TrainStep for Sparse<M> {
    type Input = M::Input;
    type Output = M::Output;

    fn step(&self, item: M::Input) -> TrainOutput<M::Output> {
        self.inner.step(item)
    }

    fn optimize(
        self,
        optim: &mut ModuleOptimizer,
        lr: ModuleLearningRate,
        grads: GradientsParams,
    ) -> Self {
        self.stepped(optim, grads, |inner, optim, grads| inner.optimize(optim, lr, grads))
    }

    /// As [`Self::optimize`], with the gradients of several devices, which the optimizer sums.
    fn optimize_multi(
        self,
        optim: &mut ModuleOptimizer,
        lr: ModuleLearningRate,
        grads: MultiGradientsParams,
    ) -> Self {
        let step = Sparse::step(&self);
        let mut gradients: BTreeMap<String, Vec<f32>> = BTreeMap::new();
        for (grads, _) in &grads.grads {
            for (name, more) in self.gradients(step, grads) {
                let sum = gradients.entry(name).or_insert_with(|| vec![0.0; more.len()]);
                sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            }
        }
        let filtered = grads.grads.into_iter().enumerate().map(|(index, (grads, device))| {
            // What is added to the sum is added once.
            (filter(&self.inner, &self.plan, step, grads, index == 0), device)
        });
        let grads = MultiGradientsParams { grads: filtered.collect() };
        self.advance(step, &gradients, optim, |inner, optim| inner.optimize_multi(optim, lr, grads))
    }
}

impl<M: InferenceStep + Module + ModuleDisplay> InferenceStep for Sparse<M> {
    type Input = M::Input;
    type Output = M::Output;

    fn step(&self, item: M::Input) -> M::Output {
        self.inner.step(item)
    }
}
