use serde::{Deserialize, Serialize};

use super::Phase;
use crate::Metric;

/// State of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) phase: Phase,
    /// Number of finished epochs of the phase.
    pub(super) epoch: usize,
    /// Number of finished steps of the current epoch.
    pub(super) step: usize,
    /// Sum of the losses of those steps.
    pub(super) loss: f64,
    /// Mask updates and time of earlier sessions in the current epoch.
    #[serde(default)]
    pub(super) part: EpochPart,
    /// Metric of the dense model: at the end of the dense phase, or as it was pretrained; `None` without either.
    pub(super) dense_metric: Option<Metric>,
    /// Best epoch of the phase.
    #[serde(default)]
    pub(super) best: Option<Best>,
    /// Seconds of all sessions so far.
    pub(super) seconds: f64,
    /// Files of this state.
    pub(super) model: String,
    pub(super) optimizer: String,
}

/// Mask updates and time of a part of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct EpochPart {
    /// Number of mask elements that changed, and that were searched.
    pub(super) changed: usize,
    pub(super) searched: usize,
    /// Seconds of the mask updates.
    pub(super) mask_seconds: f64,
    /// Seconds of all.
    pub(super) seconds: f64,
}

impl EpochPart {
    /// Returns both parts together.
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            changed: self.changed + other.changed,
            searched: self.searched + other.searched,
            mask_seconds: self.mask_seconds + other.mask_seconds,
            seconds: self.seconds + other.seconds,
        }
    }

    /// Returns the share of the searched mask elements that changed.
    pub(super) fn changed_share(self) -> f64 {
        if self.searched == 0 { 0.0 } else { self.changed as f64 / self.searched as f64 }
    }
}

/// Epoch with the best metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Best {
    /// Number of finished epochs of the phase.
    pub(super) epoch: usize,
    /// Metric.
    pub(super) value: f64,
    /// File of its model, if the recipe keeps it.
    pub(super) model: String,
}

impl Best {
    pub(super) fn new(phase: Phase, epoch: usize, value: f64) -> Self {
        Self { epoch, value, model: format!("best-{}-{epoch:03}.bpk", phase.name()) }
    }
}

impl State {
    /// Returns the state at the start of a run.
    pub(super) fn new(phase: Phase) -> Self {
        let (model, optimizer) = (String::new(), String::new());
        let (epoch, step, loss, seconds) = (0, 0, 0.0, 0.0);
        let (part, dense_metric, best) = (EpochPart::default(), None, None);
        Self { phase, epoch, step, loss, part, dense_metric, best, seconds, model, optimizer }
    }

    /// Returns the state at the start of pruning.
    pub(super) fn into_prune(self) -> Self {
        Self { phase: Phase::Prune, epoch: 0, step: 0, loss: 0.0, best: None, ..self }
    }

    /// Returns `true` if there are files to resume from.
    pub(super) fn is_saved(&self) -> bool {
        !self.model.is_empty()
    }
}
