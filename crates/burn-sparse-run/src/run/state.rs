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
        Self { phase, epoch, step, loss, dense_metric: None, best: None, seconds, model, optimizer }
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
