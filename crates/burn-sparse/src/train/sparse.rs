use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::module::{Module, Param, ParamId};
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Int, Tensor};

use super::filter::filter;
use super::journal::Journal;
use super::masked::AttachMasks;
use super::masks::{self, MaskSummary};
use super::optimizer_state::clear;
use super::packing::{Form, PackedWeights, Packing, relay_state, unpack, unpack_states};
use super::settle::settle;
use super::state::{Change, WeightState, apply, gather, gather_gradients};
use super::update::{Evidence, update};
use super::{Compute, MaskUpdateStats, Pruned, Scorer, TrainError};
use crate::distributed::Ranks;
use crate::params::ids;
use crate::prune::{Plan, PlannedWeight};

/// A model under a plan: still a Burn module, and still a `TrainStep` if the model is one.
///
/// Every optimizer step filters gradients, steps the optimizer, and updates masks when the schedule says so: through
/// burn-train's `Learner` without any change, or through [`Self::optimizer_step`] in a loop of your own. The step
/// counter, masks, and row orders are part of the module's record.
///
/// If an update clears parts of the optimizer's state, Burn reads all of it back on its default device: in a build with
/// CUDA on a machine without a GPU, set `BURN_DEVICE=flex`.
///
/// ```
/// use burn::nn::loss::{MseLoss, Reduction};
/// use burn::nn::LinearConfig;
/// use burn::optim::{AdamWConfig, GradientsParams};
/// use burn::tensor::{Device, Distribution, Tensor};
/// use burn_sparse::prelude::*;
///
/// let device = Device::flex().autodiff();
/// let model = LinearConfig::new(64, 32).init(&device);
/// let pruning =
///     PruneConfig::new(Pattern::balanced(32), 0.75).with_ramp(Ramp::cubic(Steps(8)).with_every(Steps(2)));
/// let plan = Plan::new(&pruning, &model, Horizon::steps(10))?;
/// let mut model = plan.attach(model)?;
/// let mut optimizer = AdamWConfig::new().init();
/// for _ in 0..10 {
///     let x = Tensor::<2>::random([16, 64], Distribution::Default, &device);
///     let y = x.clone().slice([0..16, 0..32]);
///     let loss = MseLoss::new().forward(model.inner().forward(x), y, Reduction::Mean);
///     let grads = GradientsParams::from_grads(loss.backward(), model.inner());
///     model = model.optimizer_step(&mut optimizer, 1e-3, grads);
/// }
/// let pruned = model.finish()?;
/// assert_eq!(pruned.sparsity(), 0.75);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Module, Debug)]
pub struct Sparse<M: Module> {
    inner: M,
    /// Step counter in the record.
    step: Param<Tensor<1, Int>>,
    /// Step counter on the host, and the id of the parameter that mirrors it.
    #[module(skip)]
    host_step: (ParamId, usize),
    #[module(skip)]
    plan: Arc<Plan>,
    // Shared by clones: burn-train clones the model at every step.
    #[module(skip)]
    journal: Arc<Mutex<Journal>>,
    #[module(skip)]
    scorer: Option<Arc<dyn Scorer>>,
    #[module(skip)]
    compute: Compute,
    /// Weights that are packed, by path; none of them if no weight gains by it. `None` if that is to be found out.
    #[module(skip)]
    packed: Option<Arc<PackedWeights>>,
    /// Ranks that train this model together.
    #[module(skip)]
    pub(super) ranks: Ranks,
}

impl Plan {
    /// Attaches a mask to every planned weight of a model, and makes the update that is due before the first step, if
    /// one is.
    ///
    /// # Errors
    /// When weights cannot be ranked (NaN or infinite values).
    pub fn attach<M: Module>(&self, model: M) -> Result<Sparse<M>, TrainError> {
        Sparse::new(model, self.clone())
    }
}

impl<M: Module> Sparse<M> {
    fn new(model: M, plan: Plan) -> Result<Self, TrainError> {
        let device = model.devices().into_iter().next().unwrap_or_default();
        let inner = model.apply_reparameterization(AttachMasks { weights: &plan.weights });
        let mut journal = Journal::default();
        let evidence = Evidence { scorer: None, gradients: &BTreeMap::new() };
        // No step has been taken, so there is no optimizer state to clear.
        let (inner, _) = update(inner, &plan, 0, &evidence, &mut journal);
        if let Some(fault) = journal.fault {
            return Err(fault);
        }
        let step = step_param(ParamId::new(), 0, &device);
        Ok(Self {
            inner,
            host_step: (step.id, 0),
            step,
            plan: Arc::new(plan),
            journal: Arc::new(Mutex::new(journal)),
            scorer: None,
            compute: Compute::default(),
            packed: None,
            ranks: Ranks::alone(),
        })
    }

    /// Installs masks and row orders by path, and zeroes dropped weights.
    pub(crate) fn with_masks(mut self, masks: BTreeMap<String, (Vec<u8>, Vec<u32>)>) -> Self {
        let change = |(name, (keep, row_order)): (String, (Vec<u8>, Vec<u32>))| {
            (name, Change { surviving: Some(keep.clone()), keep, row_order })
        };
        self.inner = apply(self.inner, &masks.into_iter().map(change).collect());
        self
    }

    /// Ranks all weights by `scorer` from now on, instead of the configured score.
    #[must_use]
    pub fn with_scorer(mut self, scorer: impl Scorer + 'static) -> Self {
        self.scorer = Some(Arc::new(scorer));
        self
    }

    /// Computes in this form from now on: with [`Compute::Packed`], every optimizer step after which there is more to pack
    /// also calls [`Self::pack`].
    #[must_use]
    pub fn with_compute(mut self, compute: Compute) -> Self {
        self.compute = compute;
        self
    }

    /// Returns the model. Its weights are masked wherever they are read.
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// Returns the plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the number of optimizer steps since pruning started.
    ///
    /// The counter is on the host; only after a record has been loaded is it read from the device, once.
    ///
    /// # Errors
    /// When the device fails to return the counter of a loaded record.
    pub fn step(&self) -> Result<usize, TrainError> {
        // Every step has a parameter with its own id: another one comes from a record.
        if self.host_step.0 == self.step.id {
            return Ok(self.host_step.1);
        }
        let fail = |reason: String| TrainError::StepCounter { reason };
        let data = self.step.val().try_into_data().map_err(|error| fail(format!("{error:?}")))?;
        let steps: Vec<i64> =
            data.convert::<i64>().try_into_vec().map_err(|error| fail(format!("{error:?}")))?;
        match steps.as_slice() {
            &[step] if step >= 0 => Ok(step as usize),
            other => Err(fail(format!("the record holds {other:?}"))),
        }
    }

    /// Checks that all mask updates so far have succeeded.
    ///
    /// # Errors
    /// The error of the update that failed; masks have not changed since.
    pub fn check_updates(&self) -> Result<(), TrainError> {
        self.journal().fault.clone().map_or(Ok(()), Err)
    }

    /// Returns and resets the statistics of mask updates.
    ///
    /// # Errors
    /// As [`Self::check_updates`].
    pub fn take_update_stats(&self) -> Result<MaskUpdateStats, TrainError> {
        self.journal().take_stats()
    }

    /// Returns the current sparsities and mask hashes.
    ///
    /// # Errors
    /// When a final mask violates its pattern.
    pub fn masks(&self) -> Result<MaskSummary, TrainError> {
        Ok(MaskSummary::of(&masks::weights(&self.states(), &self.plan, self.step()?)?))
    }

    /// Compares the masks with those of a replica that steps on its own. Masks are a function of the weights, so they
    /// are equal unless the weights differ. With burn-train's `ddp` strategy every update makes this comparison, and a
    /// difference is reported as the error of the update.
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

    /// Filters gradients, steps the optimizer, and updates masks when the schedule says so. Takes the place of
    /// `optimizer.step(lr, model, grads)` in a training loop. An update that fails is reported by [`Self::finish`], or
    /// at any time by [`Self::check_updates`].
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

    /// Packs every weight that trains faster so and of which nothing dropped can come back: whose mask is final, or, until
    /// the next update, whose rule is [`Regrow::Never`](crate::prune::Regrow::Never) with a score that needs no gradients.
    /// From then on, forward and backward passes multiply kept weights only, and the optimizer steps and keeps state for
    /// nothing else. On a GPU, whose gradients are dense products, the model stays as it is.
    ///
    /// Values and state are those of the masked form, and further steps compute the same up to the order of sums, if the
    /// optimizer treats every element on its own (AdamW, SGD; not Muon). A step that updates masks unpacks the model.
    /// [`Self::finish`] takes either form; a record of the packed form fits a packed model only, so [`Self::unpack`] before
    /// saving one to resume from. [`Self::with_compute`] packs without a call of yours.
    ///
    /// ```
    /// # use burn::optim::{AdamWConfig, GradientsParams};
    /// # use burn::tensor::{Device, Tensor};
    /// # use burn_sparse::nn::LinearConfig;
    /// # use burn_sparse::prelude::*;
    /// # let device = Device::flex().autodiff();
    /// # let model = LinearConfig::new(128, 64).init(&device);
    /// # let pruning = PruneConfig::new(Pattern::shfl_bw(32), 0.75).with_ramp(Ramp::one_shot(Steps(1)));
    /// # let mut model = Plan::new(&pruning, &model, Horizon::steps(3))?.attach(model)?;
    /// let mut optimizer = AdamWConfig::new().init();
    /// for _ in 0..2 {
    ///     let y = model.inner().forward(Tensor::<2>::ones([8, 128], &device));
    ///     let grads = GradientsParams::from_grads(y.mean().backward(), model.inner());
    ///     model = model.optimizer_step(&mut optimizer, 1e-3, grads);
    ///     model = model.pack(&mut optimizer)?; // does nothing before the last update, and after the first call
    /// }
    /// assert!(model.is_packed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When an update failed, a mask is not what was planned, or the optimizer's state cannot be read.
    pub fn pack(self, optimizer: &mut ModuleOptimizer) -> Result<Self, TrainError> {
        match self.packed(optimizer) {
            (packed, None) => Ok(packed),
            (_, Some(error)) => Err(error),
        }
    }

    /// Returns the packed model, or the model as it is and an error.
    fn packed(self, optimizer: &mut ModuleOptimizer) -> (Self, Option<TrainError>) {
        let found = match self.packing(optimizer) {
            Ok(found) => found,
            Err(error) => return (self, Some(error)),
        };
        let Some((packing, relaid)) = found else { return (self, None) };
        let packed = Some(Arc::new(packing.weights.clone()));
        if packing.weights.is_empty() {
            return (Self { packed, ..self }, None);
        }
        *optimizer = relaid;
        let inner = packing.apply(self.inner, &self.plan);
        (Self { inner, packed, ..self }, None)
    }

    /// Finds the weights to pack, and the optimizer with its state in their layout; `None` if it is too early, or done.
    fn packing(
        &self,
        optimizer: &ModuleOptimizer,
    ) -> Result<Option<(Packing, ModuleOptimizer)>, TrainError> {
        let step = self.step()?;
        let on_cpu = self.step.lazy_device().inner() == Device::flex();
        let evidence = Evidence { scorer: self.scorer.as_ref(), gradients: &BTreeMap::new() };
        let stands = |weight: &PlannedWeight| {
            let by_gradients = evidence.scorer(weight).needs_gradient();
            weight.drops_for_good(by_gradients) || weight.kept || step >= weight.schedule.end
        };
        if self.packed.is_some() || !on_cpu || !self.plan.weights.iter().any(stands) {
            return Ok(None);
        }
        self.check_updates()?;
        let states = self.states();
        let weights = masks::weights(&states, &self.plan, step)?;
        let packing = Packing::of(&self.plan, &weights, states, (step, stands))?;
        let relaid = relayed(optimizer, &self.inner, &packing.weights, Form::Packed, step)?;
        Ok(Some((packing, relaid)))
    }

    /// Returns the model with all weights under masks, as before [`Self::pack`]; dropped weights are zero.
    ///
    /// # Errors
    /// When the optimizer's state cannot be read.
    pub fn unpack(self, optimizer: &mut ModuleOptimizer) -> Result<Self, TrainError> {
        if let Some(packed) = self.packed.as_ref().filter(|packed| !packed.is_empty()) {
            *optimizer = relayed(optimizer, &self.inner, packed, Form::Masked, self.step()?)?;
        }
        Ok(self.masked())
    }

    /// Returns `true` if weights are packed.
    pub fn is_packed(&self) -> bool {
        self.packed.as_ref().is_some_and(|packed| !packed.is_empty())
    }

    /// Returns the model with all weights under masks.
    fn masked(self) -> Self {
        let Some(packed) = self.packed.filter(|packed| !packed.is_empty()) else {
            return Self { packed: None, ..self };
        };
        Self { inner: masked(self.inner, &self.plan, &packed), packed: None, ..self }
    }

    /// Reads all planned weights and their masks.
    fn states(&self) -> BTreeMap<String, WeightState> {
        states(&self.inner, &self.plan, self.packed.as_deref())
    }

    /// Proves that every mask obeys its pattern at its target, and returns the pruned model.
    ///
    /// # Errors
    /// When the ramp has not ended, an update failed, or a mask is not what was planned.
    pub fn finish(self) -> Result<Pruned<M>, TrainError> {
        self.check_updates()?;
        let (step, end) = (self.step()?, self.plan.end());
        if step < end {
            return Err(TrainError::Unfinished { step, end });
        }
        let sparse = self.masked();
        let states = sparse.states();
        masks::refuse_non_finite(&states, &sparse.plan, step)?;
        Pruned::new(sparse.inner, &states, &sparse.plan, step)
    }

    /// Returns the same model under the same masks, changed otherwise.
    pub(super) fn map_inner(self, change: impl FnOnce(M) -> M) -> Self {
        Self { inner: change(self.inner), ..self }
    }

    pub(super) fn journal(&self) -> MutexGuard<'_, Journal> {
        lock(&self.journal)
    }

    /// Reads the gradients that the update after this step needs.
    pub(super) fn gradients(
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

    /// Takes a step with the gradients of one device, made by `optimize`.
    pub(super) fn stepped(
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
    pub(super) fn step_or_fault(&self) -> Option<usize> {
        self.step().map_err(|error| self.journal().fault.get_or_insert(error).clone()).ok()
    }

    /// Steps the model by `optimize`, counts the step, and makes the updates that are due.
    pub(super) fn advance(
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

/// Reads all planned weights of a model and their masks.
fn states<M: Module>(
    model: &M,
    plan: &Plan,
    packed: Option<&PackedWeights>,
) -> BTreeMap<String, WeightState> {
    let names: Vec<&str> = plan.weights.iter().map(|weight| weight.name.as_str()).collect();
    let mut states = gather(model, &names);
    if let Some(packed) = packed {
        unpack_states(&mut states, packed);
    }
    states
}

/// Returns a model with all weights under masks.
fn masked<M: Module>(model: M, plan: &Plan, packed: &PackedWeights) -> M {
    let states = states(&model, plan, Some(packed));
    unpack(model, plan, &states)
}

/// Returns the optimizer with its state in another form.
fn relayed<M: Module>(
    optimizer: &ModuleOptimizer,
    model: &M,
    packed: &PackedWeights,
    form: Form,
    step: usize,
) -> Result<ModuleOptimizer, TrainError> {
    relay_state(optimizer, model, packed, form)
        .map_err(|error| TrainError::OptimizerState { step, reason: error.to_string() })
}

fn step_param(id: ParamId, step: usize, device: &Device) -> Param<Tensor<1, Int>> {
    Param::initialized(id, ids(vec![step as u32], device))
}

/// Returns the id of the next step's counter: a function of this one, so that records are reproducible. (Knuth's
/// linear congruential generator, which does not repeat.)
fn next_id(id: ParamId) -> ParamId {
    ParamId::from(
        id.val().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407),
    )
}

fn lock(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}
