use serde::{Deserialize, Serialize};

use super::Phase;
use crate::Metric;

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) phase: Phase,
    /// Epochs of the phase that are done.
    pub(super) epoch: usize,
    /// Steps of the current epoch that are done.
    pub(super) step: usize,
    /// The sum of the losses of those steps.
    pub(super) loss: f64,
    /// The metric at the end of the dense phase.
    pub(super) dense_metric: Option<Metric>,
    /// The best epoch of the phase.
    #[serde(default)]
    pub(super) best: Option<Best>,
    /// Seconds of all sessions so far.
    pub(super) seconds: f64,
    /// The files that belong to this state.
    pub(super) model: String,
    pub(super) optimizer: String,
}

/// The epoch with the best metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Best {
    /// Epochs of the phase that were done.
    pub(super) epoch: usize,
    /// The metric.
    pub(super) value: f64,
    /// The file of its model, where the recipe keeps it.
    pub(super) model: String,
}

impl Best {
    pub(super) fn new(phase: Phase, epoch: usize, value: f64) -> Self {
        Self { epoch, value, model: format!("best-{}-{epoch:03}.bpk", phase.name()) }
    }
}

impl State {
    /// The start of a run.
    pub(super) fn new(phase: Phase) -> Self {
        let (model, optimizer) = (String::new(), String::new());
        let (epoch, step, loss, seconds) = (0, 0, 0.0, 0.0);
        Self { phase, epoch, step, loss, dense_metric: None, best: None, seconds, model, optimizer }
    }

    /// The start of the second phase.
    pub(super) fn into_prune(self) -> Self {
        Self { phase: Phase::Prune, epoch: 0, step: 0, loss: 0.0, best: None, ..self }
    }

    /// Whether there are files to go on from.
    pub(super) fn is_saved(&self) -> bool {
        !self.model.is_empty()
    }
}
