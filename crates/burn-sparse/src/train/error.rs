use burn_sparse_pattern::PatternError;
use thiserror::Error;

/// Why masks could not be updated, or a training run is not finished.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum TrainError {
    /// Weights that cannot be ranked, or a mask that breaks its pattern.
    #[error("parameter {name}, step {step}: {source}")]
    Pattern {
        /// The parameter.
        name: String,
        /// Optimizer steps since pruning started.
        step: usize,
        /// Why.
        source: PatternError,
    },
    /// The state of a mask is missing: the model is not the one the plan was attached to.
    #[error("parameter {name} has no mask; the plan belongs to another model")]
    Unmasked {
        /// The parameter.
        name: String,
    },
    /// The ramp has not reached its end.
    #[error("pruning is at step {step}, but the ramp ends at step {end}: train on, then finish")]
    Unfinished {
        /// Optimizer steps done.
        step: usize,
        /// The last update.
        end: usize,
    },
    /// Scores that need a gradient, in an update that has none.
    #[error(
        "parameter {name}: its score needs a gradient, which an update before the first step does not have, nor \
         a weight that the loss does not depend on"
    )]
    NoGradient {
        /// The parameter.
        name: String,
    },
    /// A scorer that does not rank every weight.
    #[error("parameter {name}: the scorer gave {found} scores for {expected} weights")]
    Scores {
        /// The parameter.
        name: String,
        /// Its weights.
        expected: usize,
        /// The scores.
        found: usize,
    },
    /// The optimizer's state could not be changed.
    #[error("the optimizer's state of dropped weights, step {step}: {reason}")]
    OptimizerState {
        /// Optimizer steps since pruning started.
        step: usize,
        /// What Burn answered.
        reason: String,
    },
    /// Copies of one model on several devices whose masks differ: whatever comes of them is no one model.
    #[error("parameter {name} has mask {found} on another device, {expected} here")]
    Replicas {
        /// The parameter.
        name: String,
        /// The hash of the mask here.
        expected: String,
        /// The hash there.
        found: String,
    },
    /// A mask that does not have the planned number of zeros.
    #[error("parameter {name} has {found} zeros, planned were {expected}")]
    Zeros {
        /// The parameter.
        name: String,
        /// What the plan says.
        expected: usize,
        /// What the mask has.
        found: usize,
    },
}
