use serde::{Deserialize, Serialize};

use super::{Distill, RecipeError};

/// The `[train]` table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainTable {
    /// Epochs before pruning starts.
    pub dense_epochs: usize,
    /// Epochs of fine-tuning while and after sparsity rises.
    pub prune_epochs: usize,
    /// Fine-tunes a packed checkpoint under the masks it has: what is zero stays zero (sparse transfer).
    /// There is no `[[prune]]` table then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_zeros: bool,
    /// Samples of an optimizer step.
    pub batch_size: usize,
    /// The optimizer; it starts afresh when pruning starts.
    pub optimizer: OptimizerSpec,
    /// The learning rate over each of the two phases.
    pub learning_rate_schedule: LearningRateSchedule,
    /// The share of the learning-rate schedule, from its end, that pruning goes through, instead of all of it
    /// (learning-rate rewinding: Renda et al., 2020).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewind: Option<f64>,
    /// Fine-tunes towards the outputs of the dense model too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distill: Option<Distill>,
    /// Ends a phase after as many epochs without a better metric; in pruning they count from the end of the
    /// last ramp on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<usize>,
    /// Which epoch's model a phase ends with.
    #[serde(skip_serializing_if = "Keep::is_last")]
    pub keep: Keep,
}

impl Default for TrainTable {
    fn default() -> Self {
        Self {
            dense_epochs: 0,
            prune_epochs: 1,
            keep_zeros: false,
            batch_size: 128,
            optimizer: OptimizerSpec::AdamW { learning_rate: 1e-3, weight_decay: 1e-4 },
            learning_rate_schedule: LearningRateSchedule::Constant,
            rewind: None,
            distill: None,
            patience: None,
            keep: Keep::Last,
        }
    }
}

impl TrainTable {
    /// The learning rate at `progress`, 0 to 1, of the dense phase.
    pub fn dense_learning_rate(&self, progress: f64) -> f64 {
        self.optimizer.learning_rate() * self.learning_rate_schedule.share(progress)
    }

    /// The learning rate at `progress`, 0 to 1, of pruning.
    pub fn prune_learning_rate(&self, progress: f64) -> f64 {
        let from = 1.0 - self.rewind.unwrap_or(1.0);
        self.dense_learning_rate(from + (1.0 - from) * progress)
    }

    pub(super) fn validate(&self) -> Result<(), RecipeError> {
        let fail =
            |key: &str, reason: String| Err(RecipeError::value(format!("train.{key}"), reason));
        if self.batch_size == 0 {
            return fail("batch_size", "is 0, expected at least 1".into());
        }
        let rate = self.optimizer.learning_rate();
        if !(rate > 0.0 && rate.is_finite()) {
            return fail(
                "optimizer.learning_rate",
                format!("is {rate}, expected a positive number"),
            );
        }
        let (momentum, decay) = match self.optimizer {
            OptimizerSpec::AdamW { weight_decay, .. } => (0.0, weight_decay),
            OptimizerSpec::Sgd { momentum, weight_decay, .. } => (momentum, weight_decay),
        };
        if !(0.0..1.0).contains(&momentum) {
            let reason = format!("is {momentum}, expected 0 or more, and below 1");
            return fail("optimizer.momentum", reason);
        }
        if !(decay >= 0.0 && decay.is_finite()) {
            return fail(
                "optimizer.weight_decay",
                format!("is {decay}, expected 0 or a positive number"),
            );
        }
        if self.keep_zeros && self.dense_epochs > 0 {
            let reason =
                "is true, but dense epochs would bring the zeros back: set train.dense_epochs to 0";
            return fail("keep_zeros", reason.into());
        }
        if self.keep_zeros && self.distill.is_some() {
            let reason =
                "needs the dense model, which keep_zeros starts without: take one of the two out";
            return fail("distill", reason.into());
        }
        if let Some(share) = self.rewind
            && !(share > 0.0 && share <= 1.0)
        {
            let reason = format!("is {share}, expected a share above 0 and up to 1");
            return fail("rewind", reason);
        }
        if self.patience == Some(0) {
            return fail("patience", "is 0, expected at least 1 epoch".into());
        }
        self.distill.map_or(Ok(()), |distill| {
            distill.validate().map_err(|reason| RecipeError::value("train.distill", reason))
        })
    }
}

/// Which epoch's model a phase of training ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// The last epoch's.
    #[default]
    Last,
    /// That of the epoch with the best metric; in pruning only epochs after the last ramp count. The metric
    /// is then the best of several on the same data, and a little too good.
    Best,
}

impl Keep {
    fn is_last(&self) -> bool {
        *self == Self::Last
    }
}

/// The optimizers a recipe can name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum OptimizerSpec {
    /// Adam with decoupled weight decay.
    AdamW {
        /// The peak learning rate.
        learning_rate: f64,
        /// Decoupled weight decay.
        #[serde(default)]
        weight_decay: f64,
    },
    /// Stochastic gradient descent.
    Sgd {
        /// The peak learning rate.
        learning_rate: f64,
        /// Momentum; 0 for none.
        #[serde(default)]
        momentum: f64,
        /// Weight decay, added to the gradient.
        #[serde(default)]
        weight_decay: f64,
    },
}

impl OptimizerSpec {
    /// The peak learning rate.
    pub fn learning_rate(&self) -> f64 {
        match *self {
            Self::AdamW { learning_rate, .. } | Self::Sgd { learning_rate, .. } => learning_rate,
        }
    }
}

/// The learning rate over a phase of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LearningRateSchedule {
    /// The peak throughout.
    #[default]
    Constant,
    /// Falls from the peak to nothing along half a cosine.
    Cosine,
    /// Falls from the peak to nothing along a line.
    Linear,
}

impl LearningRateSchedule {
    /// The share of the peak at `progress`, 0 to 1, of the phase.
    pub fn share(&self, progress: f64) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::Cosine => (1.0 + (std::f64::consts::PI * progress).cos()) / 2.0,
            Self::Linear => 1.0 - progress,
        }
    }
}
