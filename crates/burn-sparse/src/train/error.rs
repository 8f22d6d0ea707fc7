use burn::tensor::DType;
use burn_sparse_pattern::PatternError;
use thiserror::Error;

use crate::distributed::{RankFailed, UnlikeModels};

/// Failure of a mask update, or of the final verification.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum TrainError {
    /// Weights that cannot be ranked, or a mask that violates its pattern.
    #[error("parameter {name}, step {step}: {source}")]
    Pattern {
        /// Path of the parameter.
        name: String,
        /// Optimizer steps since pruning started.
        step: usize,
        /// Cause.
        source: PatternError,
    },
    /// A planned parameter that is missing or has no mask: the plan was made for another model.
    #[error("parameter {name} is missing or has no mask; the plan belongs to another model")]
    Unmasked {
        /// Path of the parameter.
        name: String,
    },
    /// A parameter of another shape than the planned one.
    #[error(
        "parameter {name} is {found:?}, the plan is for {expected:?}: it belongs to another model"
    )]
    Shape {
        /// Path of the parameter.
        name: String,
        /// Planned shape, as the layer stores it.
        expected: Vec<usize>,
        /// Its shape.
        found: Vec<usize>,
    },
    /// A planned parameter that has masks already, or is packed or adapted.
    #[error(
        "parameter {name} has the reparameterization `{found}` already; materialize the model first"
    )]
    Reparameterized {
        /// Path of the parameter.
        name: String,
        /// Name of the reparameterization.
        found: String,
    },
    /// A parameter outside the plan that packing would make dense.
    #[error(
        "parameter {name} is not pruned and has the reparameterization `{found}`, which packing would remove: train under masks"
    )]
    NotPacked {
        /// Path of the parameter.
        name: String,
        /// Name of the reparameterization.
        found: String,
    },
    /// A planned parameter in a type that cannot be masked on the CPU.
    #[error(
        "parameter {name} is in {found:?}; on the CPU, weights are pruned in F32: cast the model first"
    )]
    Type {
        /// Path of the parameter.
        name: String,
        /// Its type.
        found: DType,
    },
    /// A plan, read from elsewhere, with a schedule that cannot be followed.
    #[error("the plan has a schedule that cannot be followed: {found}")]
    Schedule {
        /// Parameter and schedule.
        found: String,
    },
    /// A weight that is NaN or infinite.
    #[error("parameter {name}, step {step}: weight {found} in row {row}, column {col}")]
    NotFinite {
        /// Path of the parameter.
        name: String,
        /// Optimizer steps since pruning started.
        step: usize,
        /// Row of its matrix.
        row: usize,
        /// Column of its matrix.
        col: usize,
        /// The weight.
        found: f32,
    },
    /// The ramp has not reached its end.
    #[error("pruning is at step {step}, but the ramp ends at step {end}: train on, then finish")]
    Unfinished {
        /// Optimizer steps taken.
        step: usize,
        /// Step of the last update.
        end: usize,
    },
    /// A score needs a gradient that does not exist.
    #[error(
        "parameter {name}: its score needs a gradient; there is none before the first step, or if the loss does not depend on \
         the weight"
    )]
    NoGradient {
        /// Path of the parameter.
        name: String,
    },
    /// A scorer that does not return one score per weight.
    #[error("parameter {name}: the scorer returned {found} scores for {expected} weights")]
    Scores {
        /// Path of the parameter.
        name: String,
        /// Number of weights.
        expected: usize,
        /// Number of scores.
        found: usize,
    },
    /// The optimizer's state could not be changed.
    #[error("optimizer state, step {step}: {reason}")]
    OptimizerState {
        /// Optimizer steps since pruning started.
        step: usize,
        /// Burn's error.
        reason: String,
    },
    /// Replicas of one model on several devices whose masks differ.
    #[error("parameter {name} has mask {found} on another device, {expected} here")]
    Replicas {
        /// Path of the parameter.
        name: String,
        /// Mask hash on this device.
        expected: String,
        /// Mask hash on the other device.
        found: String,
    },
    /// Processes that train one model together, and whose masks differ.
    #[error(
        "parameter {name} has another mask on rank {} than on rank 0 after step {step}",
        listed(ranks)
    )]
    Ranks {
        /// Path of the parameter.
        name: String,
        /// Optimizer steps since pruning started.
        step: usize,
        /// Ranks whose masks differ from that of rank 0.
        ranks: Vec<usize>,
    },
    /// Processes that train different models.
    #[error(transparent)]
    Unlike(UnlikeModels),
    /// Another process failed.
    #[error(transparent)]
    Rank(#[from] RankFailed),
    /// Processes that train one model together, each on several devices.
    #[error(
        "gradients of several devices are not averaged with those of other ranks: give every rank one device"
    )]
    RankDevices,
    /// A mask whose number of zeros is not the planned one.
    #[error("parameter {name} has {found} zeros, expected {expected}")]
    Zeros {
        /// Path of the parameter.
        name: String,
        /// Planned number of zeros.
        expected: usize,
        /// Number of zeros of the mask.
        found: usize,
    },
    /// The step counter of a loaded record could not be read.
    #[error("the step counter of the record cannot be read: {reason}")]
    StepCounter {
        /// Burn's error, or the unexpected value.
        reason: String,
    },
}

fn listed(ranks: &[usize]) -> String {
    ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}
