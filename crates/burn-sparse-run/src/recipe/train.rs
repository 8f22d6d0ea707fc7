use burn_sparse::train::Compute;
use serde::{Deserialize, Serialize};

use super::{Distill, RecipeError};

/// The `[train]` table: the training loop of a recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Number of epochs before pruning starts.
    pub dense_epochs: usize,
    /// Number of epochs of fine-tuning, during the ramp and after it.
    pub prune_epochs: usize,
    /// `true` to fine-tune a packed checkpoint under its own masks (sparse transfer). Excludes `[[prune]]` tables.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_zeros: bool,
    /// Number of samples of an optimizer step.
    pub batch_size: usize,
    /// Globs of the paths of parameters that are not trained, as in `word.*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub freeze: Vec<String>,
    /// Largest number of samples that run at once; the gradients of the parts of a batch are accumulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_batch: Option<usize>,
    /// `true` to keep fewer activations for the backward pass and recompute the others: slower, but with less memory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint_activations: bool,
    /// Largest norm of the gradients of a step, over all parameters together; larger gradients are scaled down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
    /// Optimizer; its state is reset when pruning starts.
    pub optimizer: OptimizerConfig,
    /// Form of pruned weights once their masks are final, and between updates where dropped weights never come back.
    #[serde(skip_serializing_if = "is_default")]
    pub compute: Compute,
    /// Learning rate schedule of each of the two phases.
    pub learning_rate_schedule: LearningRateSchedule,
    /// Share of each phase during which the learning rate rises linearly, before its schedule begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<f64>,
    /// Final share of the learning rate schedule that pruning runs through, instead of all of it (learning rate rewinding;
    /// Renda et al., 2020).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewind: Option<f64>,
    /// Distillation from the dense model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distill: Option<Distill>,
    /// Number of epochs without a better metric after which a phase ends; in pruning, counted from the end of the last ramp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<usize>,
    /// Epoch whose model a phase ends with.
    #[serde(skip_serializing_if = "is_default")]
    pub keep: Keep,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            dense_epochs: 0,
            prune_epochs: 1,
            keep_zeros: false,
            batch_size: 128,
            freeze: Vec::new(),
            micro_batch: None,
            checkpoint_activations: false,
            clip: None,
            optimizer: OptimizerConfig::AdamW {
                learning_rate: 1e-3,
                weight_decay: 1e-4,
                state: StateType::F32,
            },
            compute: Compute::Masked,
            learning_rate_schedule: LearningRateSchedule::Constant,
            warmup: None,
            rewind: None,
            distill: None,
            patience: None,
            keep: Keep::Last,
        }
    }
}

impl TrainConfig {
    /// Returns the learning rate at `progress` (0 to 1) of the dense phase.
    pub fn dense_learning_rate(&self, progress: f64) -> f64 {
        self.learning_rate(progress, |progress| progress)
    }

    /// Returns the learning rate at `progress` (0 to 1) of pruning.
    pub fn prune_learning_rate(&self, progress: f64) -> f64 {
        let from = 1.0 - self.rewind.unwrap_or(1.0);
        self.learning_rate(progress, |progress| from + (1.0 - from) * progress)
    }

    /// Returns the learning rate at `progress` of a phase; `part` maps progress in the phase to progress in the schedule.
    fn learning_rate(&self, progress: f64, part: impl Fn(f64) -> f64) -> f64 {
        let warmup = self.warmup.unwrap_or(0.0);
        let peak = self.optimizer.learning_rate();
        match progress < warmup {
            true => peak * self.learning_rate_schedule.share(part(0.0)) * progress / warmup,
            false => {
                let progress = (progress - warmup) / (1.0 - warmup);
                peak * self.learning_rate_schedule.share(part(progress))
            }
        }
    }

    pub(super) fn validate(&self) -> Result<(), RecipeError> {
        let fail =
            |key: &str, reason: String| Err(RecipeError::value(format!("train.{key}"), reason));
        if self.batch_size == 0 {
            return fail("batch_size", "is 0, expected at least 1".into());
        }
        if self.micro_batch == Some(0) {
            return fail("micro_batch", "is 0, expected at least 1".into());
        }
        if let Some(most) = self.clip
            && !(most > 0.0 && most.is_finite())
        {
            return fail("clip", format!("is {most}, expected a positive number"));
        }
        if let Some(share) = self.warmup
            && !(0.0..1.0).contains(&share)
        {
            return fail("warmup", format!("is {share}, expected 0 or more, and below 1"));
        }
        let rate = self.optimizer.learning_rate();
        if !(rate > 0.0 && rate.is_finite()) {
            return fail(
                "optimizer.learning_rate",
                format!("is {rate}, expected a positive number"),
            );
        }
        let (momentum, decay) = match self.optimizer {
            OptimizerConfig::AdamW { weight_decay, .. } => (0.0, weight_decay),
            OptimizerConfig::Sgd { momentum, weight_decay, .. } => (momentum, weight_decay),
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
                "needs the dense model, which keep_zeros does not have: remove one of them";
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

/// Epoch whose model a phase of training ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// The last epoch.
    #[default]
    Last,
    /// The epoch with the best metric; in pruning, only epochs after the last ramp count. The metric is then the best of
    /// several on the same data, which biases it upwards.
    Best,
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Optimizers that a recipe can name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum OptimizerConfig {
    /// Adam with decoupled weight decay.
    AdamW {
        /// Peak learning rate.
        learning_rate: f64,
        /// Decoupled weight decay.
        #[serde(default)]
        weight_decay: f64,
        /// Type of both moments between two steps.
        #[serde(default, skip_serializing_if = "is_default")]
        state: StateType,
    },
    /// Stochastic gradient descent, as Burn's `SgdConfig`: with momentum, gradients are scaled by 0.9 (a dampening of 0.1).
    Sgd {
        /// Peak learning rate.
        learning_rate: f64,
        /// Momentum; 0 for none.
        #[serde(default)]
        momentum: f64,
        /// Weight decay, added to the gradient.
        #[serde(default)]
        weight_decay: f64,
    },
}

/// Type in which an optimizer keeps its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StateType {
    /// Four bytes.
    #[default]
    F32,
    /// Two bytes, rounded stochastically.
    Bf16,
}

impl StateType {
    /// Returns the number of bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }
}

impl OptimizerConfig {
    /// Returns the peak learning rate.
    pub fn learning_rate(&self) -> f64 {
        match *self {
            Self::AdamW { learning_rate, .. } | Self::Sgd { learning_rate, .. } => learning_rate,
        }
    }
}

/// Learning rate schedule of a phase of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LearningRateSchedule {
    /// Constant at the peak.
    #[default]
    Constant,
    /// Falls from the peak to zero along half a cosine.
    Cosine,
    /// Falls from the peak to zero linearly.
    Linear,
}

impl LearningRateSchedule {
    /// Returns the share of the peak at `progress` (0 to 1) of the phase.
    pub fn share(&self, progress: f64) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::Cosine => (1.0 + (std::f64::consts::PI * progress).cos()) / 2.0,
            Self::Linear => 1.0 - progress,
        }
    }
}
