use std::collections::BTreeMap;

use burn::module::{Module, ModuleDisplay};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn_sparse::distributed::Ranks;
use burn_sparse::train::{Compute, Sparse};

use super::state::EpochPart;
use super::{Phase, RunError, gradients};
use crate::recipe::TrainConfig;

/// Current sparsities of the masks, and statistics of their updates since the last report.
#[derive(Default)]
pub(super) struct MaskReport {
    pub(super) sparsity: f64,
    pub(super) patterns: BTreeMap<String, f64>,
    /// Updates; without the time of all.
    pub(super) updates: EpochPart,
}

/// A phase of a run: the model that it trains, and what the training loop needs from it.
pub(super) trait PhaseKind<M: Module + ModuleDisplay> {
    /// The task's model, or the same under masks.
    type Model: Module;

    const PHASE: Phase;

    /// Returns the number of epochs.
    fn epochs(config: &TrainConfig) -> usize;

    /// Returns the learning rate at `progress` (0 to 1) of the phase.
    fn learning_rate(config: &TrainConfig, progress: f64) -> f64;

    /// Returns the task's model.
    fn inner(model: &Self::Model) -> &M;

    /// Returns the norm of the gradients that the step uses.
    fn norm(model: &Self::Model, grads: &GradientsParams) -> Result<f64, RunError>;

    /// Steps the optimizer.
    fn optimize(
        model: Self::Model,
        optimizer: &mut ModuleOptimizer,
        rate: f64,
        grads: GradientsParams,
    ) -> Self::Model;

    /// Returns the model in the form used by the next steps.
    fn prepare(
        model: Self::Model,
        _optimizer: &mut ModuleOptimizer,
        _compute: Compute,
    ) -> Result<Self::Model, RunError> {
        Ok(model)
    }

    /// Returns `true` if only kept weights are computed with.
    fn is_packed(_model: &Self::Model) -> bool {
        false
    }

    /// Returns the model and its optimizer in the form of records.
    fn recorded(
        model: &Self::Model,
        optimizer: &ModuleOptimizer,
    ) -> Result<(Self::Model, ModuleOptimizer), RunError> {
        Ok((model.clone(), optimizer.clone()))
    }

    /// Returns `true` if the phase may end with this model.
    fn may_be_last(_model: &Self::Model) -> Result<bool, RunError> {
        Ok(true)
    }

    /// Reports on the masks.
    fn masks(_model: &Self::Model) -> Result<MaskReport, RunError> {
        Ok(MaskReport::default())
    }

    /// Returns `true` if the last step has updated masks.
    fn is_updated(_model: &Self::Model) -> bool {
        false
    }

    /// Compares the masks of all ranks.
    fn compare_masks(_model: &Self::Model, _ranks: &Ranks) -> Result<(), RunError> {
        Ok(())
    }

    /// Checks that all mask updates have succeeded.
    fn check_updates(_model: &Self::Model) -> Result<(), RunError> {
        Ok(())
    }
}

/// Training without masks.
pub(super) struct DensePhase;

impl<M: Module + ModuleDisplay> PhaseKind<M> for DensePhase {
    type Model = M;
    const PHASE: Phase = Phase::Dense;

    fn epochs(config: &TrainConfig) -> usize {
        config.dense_epochs
    }

    fn learning_rate(config: &TrainConfig, progress: f64) -> f64 {
        config.dense_learning_rate(progress)
    }

    fn inner(model: &M) -> &M {
        model
    }

    fn norm(model: &M, grads: &GradientsParams) -> Result<f64, RunError> {
        Ok(gradients::norm(model, grads))
    }

    fn optimize(model: M, optimizer: &mut ModuleOptimizer, rate: f64, grads: GradientsParams) -> M {
        optimizer.step(rate, model, grads)
    }
}

/// Fine-tuning under masks.
pub(super) struct PrunePhase;

impl<M: Module + ModuleDisplay> PhaseKind<M> for PrunePhase {
    type Model = Sparse<M>;
    const PHASE: Phase = Phase::Prune;

    fn epochs(config: &TrainConfig) -> usize {
        config.prune_epochs
    }

    fn learning_rate(config: &TrainConfig, progress: f64) -> f64 {
        config.prune_learning_rate(progress)
    }

    fn inner(model: &Sparse<M>) -> &M {
        model.inner()
    }

    fn norm(model: &Sparse<M>, grads: &GradientsParams) -> Result<f64, RunError> {
        Ok(model.gradient_norm(grads)?)
    }

    fn optimize(
        model: Sparse<M>,
        optimizer: &mut ModuleOptimizer,
        rate: f64,
        grads: GradientsParams,
    ) -> Sparse<M> {
        model.optimizer_step(optimizer, rate, grads)
    }

    fn prepare(
        model: Sparse<M>,
        optimizer: &mut ModuleOptimizer,
        compute: Compute,
    ) -> Result<Sparse<M>, RunError> {
        match compute {
            Compute::Masked => Ok(model),
            Compute::Packed => Ok(model.pack(optimizer)?),
        }
    }

    fn is_packed(model: &Sparse<M>) -> bool {
        model.is_packed()
    }

    fn recorded(
        model: &Sparse<M>,
        optimizer: &ModuleOptimizer,
    ) -> Result<(Sparse<M>, ModuleOptimizer), RunError> {
        let mut optimizer = optimizer.clone();
        Ok((model.clone().unpack(&mut optimizer)?, optimizer))
    }

    fn may_be_last(model: &Sparse<M>) -> Result<bool, RunError> {
        Ok(Sparse::step(model)? >= model.plan().end())
    }

    fn masks(model: &Sparse<M>) -> Result<MaskReport, RunError> {
        let stats = model.take_update_stats()?;
        let masks = model.masks()?;
        Ok(MaskReport {
            sparsity: masks.sparsity,
            patterns: masks.patterns,
            updates: EpochPart {
                changed: stats.changed,
                searched: stats.searched,
                mask_seconds: stats.seconds,
                seconds: 0.0,
            },
        })
    }

    fn is_updated(model: &Sparse<M>) -> bool {
        model.is_updated()
    }

    fn compare_masks(model: &Sparse<M>, ranks: &Ranks) -> Result<(), RunError> {
        Ok(model.compare_masks(ranks)?)
    }

    fn check_updates(model: &Sparse<M>) -> Result<(), RunError> {
        Ok(model.check_updates()?)
    }
}
