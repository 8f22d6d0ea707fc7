//! The two forms of weights in training: dense under masks, and packed.

use std::collections::BTreeMap;
use std::sync::Arc;

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::Device;

use super::Sparse;
use crate::params::parameters;
use crate::prune::{Plan, PlannedWeight};
use crate::train::packing::{Form, PackedWeights, Packing, relay_state, unpack, unpack_states};
use crate::train::state::{WeightState, gather};
use crate::train::update::Evidence;
use crate::train::{TrainError, masks};

impl<M: Module> Sparse<M> {
    /// Packs every weight that trains faster packed and whose dropped weights cannot come back: its mask is final, or, until
    /// the next update, its rule is [`Regrow::Never`](crate::prune::Regrow::Never) with a score that needs no gradients. From
    /// then on, forward and backward passes multiply only kept weights, and the optimizer steps and keeps state only for them.
    /// On a GPU, where gradients are dense products, the model stays as it is.
    ///
    /// Values and state are those of the masked form, and further steps compute the same results up to the order of sums, if
    /// the optimizer treats every element independently (AdamW, SGD; not Muon). A step that updates masks unpacks the model.
    /// [`Self::finish`] accepts either form; a record of the packed form fits only a packed model, so call [`Self::unpack`]
    /// before saving a record to resume from. [`Self::with_compute`] packs automatically.
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
    /// Returns an error when an update failed, a mask does not match the plan, the optimizer's state cannot be read or does not
    /// have an element for each weight (Adafactor), or a weight outside the plan is packed or adapted.
    pub fn pack(self, optimizer: &mut ModuleOptimizer) -> Result<Self, TrainError> {
        match self.packed(optimizer) {
            (packed, None) => Ok(packed),
            (_, Some(error)) => Err(error),
        }
    }

    /// Returns the packed model, or the unchanged model and an error.
    pub(super) fn packed(self, optimizer: &mut ModuleOptimizer) -> (Self, Option<TrainError>) {
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

    /// Finds the weights to pack, and the optimizer with its state in their layout; `None` if it is too early, or already done.
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
        self.refuse_other_forms()?;
        let states = self.states();
        let weights = masks::weights(&states, &self.plan, step)?;
        let packing = Packing::of(&self.plan, &weights, states, (step, stands))?;
        let relaid = relayed(optimizer, &self.inner, &packing.weights, Form::Packed, step)?;
        Ok(Some((packing, relaid)))
    }

    /// Refuses a weight outside the plan that is packed or adapted: masks are replaced by making all weights dense.
    fn refuse_other_forms(&self) -> Result<(), TrainError> {
        let planned = |name: &str| self.plan.weights.iter().any(|weight| weight.name == name);
        for parameter in parameters(&self.inner) {
            let name = parameter.name;
            if let Some(found) = parameter.reparameterization.filter(|_| !planned(&name)) {
                return Err(TrainError::NotPacked { name, found });
            }
        }
        Ok(())
    }

    /// Returns the model with all weights under masks, as before [`Self::pack`]; dropped weights are zero.
    ///
    /// # Errors
    /// Returns an error when the optimizer's state cannot be read.
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
    pub(super) fn masked(self) -> Self {
        let Some(packed) = self.packed.filter(|packed| !packed.is_empty()) else {
            return Self { packed: None, ..self };
        };
        Self { inner: masked(self.inner, &self.plan, &packed), packed: None, ..self }
    }

    /// Reads all planned weights and their masks.
    pub(super) fn states(&self) -> BTreeMap<String, WeightState> {
        states(&self.inner, &self.plan, self.packed.as_deref())
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
pub(super) fn masked<M: Module>(model: M, plan: &Plan, packed: &PackedWeights) -> M {
    let states = states(&model, plan, Some(packed));
    unpack(model, plan, &states)
}

/// Returns the optimizer with its state in another form.
pub(super) fn relayed<M: Module>(
    optimizer: &ModuleOptimizer,
    model: &M,
    packed: &PackedWeights,
    form: Form,
    step: usize,
) -> Result<ModuleOptimizer, TrainError> {
    relay_state(optimizer, model, packed, form)
        .map_err(|reason| TrainError::OptimizerState { step, reason })
}
