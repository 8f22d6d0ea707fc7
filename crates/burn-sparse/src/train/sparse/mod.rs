//! [`Sparse`], a model under a plan; its optimizer steps are in `advance`, the forms of its weights in `forms`.

mod advance;
mod forms;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::module::{Module, Param, ParamId};
use burn::tensor::{Device, Int, Tensor};

use super::journal::Journal;
use super::masked::AttachMasks;
use super::masks::{self, MaskSummary};
use super::packing::PackedWeights;
use super::shapes::refuse_other_shapes;
use super::state::{Change, apply};
use super::update::{Evidence, update};
use super::{Compute, MaskUpdateStats, Pruned, Scorer, TrainError};
use crate::distributed::Ranks;
use crate::params::ids;
use crate::prune::Plan;

/// A model under a plan: still a Burn module, and still a `TrainStep` if the model is one.
///
/// Every optimizer step filters gradients, steps the optimizer, and updates masks when the schedule says so: through
/// burn-train's `Learner` without any change, or through [`Self::optimizer_step`] in your own loop. The step counter, masks,
/// and row orders are part of the module's record.
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
    /// Packed weights, by path; empty if no weight gains from packing. `None` if this is not yet known.
    #[module(skip)]
    packed: Option<Arc<PackedWeights>>,
    /// Ranks that train this model together.
    #[module(skip)]
    pub(super) ranks: Ranks,
}

impl Plan {
    /// Attaches a mask to every planned weight of a model, and makes the update that is due before the first step, if any.
    ///
    /// # Errors
    /// Returns an error when a planned parameter is missing from the model or has another shape, or when weights cannot be
    /// ranked (NaN or infinite values).
    pub fn attach<M: Module>(&self, model: M) -> Result<Sparse<M>, TrainError> {
        Sparse::new(model, self.clone())
    }
}

impl<M: Module> Sparse<M> {
    fn new(model: M, plan: Plan) -> Result<Self, TrainError> {
        plan.validate().map_err(|found| TrainError::Schedule { found })?;
        refuse_other_shapes(&plan, &model)?;
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
    ///
    /// [`Plan::attach`] has already made the update of step 0 by the configured score. If the plan has no ramp, that was the
    /// only one: use a ramp, such as `Ramp::one_shot(Steps(1))`.
    #[must_use]
    pub fn with_scorer(mut self, scorer: impl Scorer + 'static) -> Self {
        self.scorer = Some(Arc::new(scorer));
        self
    }

    /// Sets the form of computation from now on: with [`Compute::Packed`], every optimizer step after which there is more to
    /// pack also calls [`Self::pack`].
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
    /// The counter is kept on the host, and read from the device only from the time when a record is loaded to the next step.
    ///
    /// # Errors
    /// Returns an error when the device fails to return the counter of a loaded record.
    pub fn step(&self) -> Result<usize, TrainError> {
        // Every step has a parameter with its own id: another id comes from a record.
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
    /// Returns the error of the update that failed; masks have not changed since.
    pub fn check_updates(&self) -> Result<(), TrainError> {
        self.journal().fault.clone().map_or(Ok(()), Err)
    }

    /// Returns and resets the statistics of mask updates.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::check_updates`].
    pub fn take_update_stats(&self) -> Result<MaskUpdateStats, TrainError> {
        self.journal().take_stats()
    }

    /// Returns the current sparsities and mask hashes.
    ///
    /// # Errors
    /// Returns an error when a final mask violates its pattern.
    pub fn masks(&self) -> Result<MaskSummary, TrainError> {
        Ok(MaskSummary::of(&masks::weights(&self.states(), &self.plan, self.step()?)?))
    }

    /// Compares the masks with those of a replica that steps on its own. Masks are a function of the weights, so they
    /// are equal unless the weights differ. With burn-train's `ddp` strategy every update makes this comparison, and a
    /// difference is reported as the error of the update.
    ///
    /// # Errors
    /// Returns an error that names the first parameter whose masks differ.
    pub fn agrees(&self, replica: &Self) -> Result<(), TrainError> {
        let (here, there) = (self.masks()?.hashes, replica.masks()?.hashes);
        for ((name, expected), found) in here.into_iter().zip(there.into_values()) {
            if expected != found {
                return Err(TrainError::Replicas { name, expected, found });
            }
        }
        Ok(())
    }

    /// Verifies that every mask satisfies its pattern at its target sparsity, and returns the pruned model.
    ///
    /// # Errors
    /// Returns an error when the ramp has not ended, an update failed, a weight is NaN or infinite, or a mask does not match
    /// the plan.
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

    /// Returns the model with `change` applied, under the same masks.
    pub(super) fn map_inner(self, change: impl FnOnce(M) -> M) -> Self {
        Self { inner: change(self.inner), ..self }
    }

    pub(super) fn journal(&self) -> MutexGuard<'_, Journal> {
        lock(&self.journal)
    }
}

fn step_param(id: ParamId, step: usize, device: &Device) -> Param<Tensor<1, Int>> {
    Param::initialized(id, ids(vec![step as u32], device))
}

fn lock(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}
