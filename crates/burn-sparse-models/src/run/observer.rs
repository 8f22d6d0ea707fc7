use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The two phases of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Without masks.
    Dense,
    /// Under the ramp and after it.
    Prune,
}

impl Phase {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Prune => "prune",
        }
    }
}

/// What one epoch did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EpochReport {
    /// The phase.
    pub phase: Phase,
    /// The epoch of the phase, from 1.
    pub epoch: usize,
    /// Epochs of the phase.
    pub epochs: usize,
    /// The mean training loss.
    pub loss: f64,
    /// The metric's name.
    pub metric: String,
    /// The metric on the test data.
    pub value: f64,
    /// The share of zeros of the planned weights at the end of the epoch.
    pub sparsity: f64,
    /// That of the weights of each pattern.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub patterns: BTreeMap<String, f64>,
    /// The share of searched masks that changed.
    pub mask_changed: f64,
    /// Seconds spent on mask updates.
    pub mask_seconds: f64,
    /// Seconds of the epoch, evaluation included.
    pub seconds: f64,
}

/// Watches a run and may end it.
pub trait Observer {
    /// A step is done: `step` of `steps` in this epoch.
    fn step(&mut self, phase: Phase, epoch: usize, step: usize, steps: usize, loss: f64);

    /// An epoch is done.
    fn epoch(&mut self, report: &EpochReport);

    /// Whether to stop now, resumably.
    fn interrupted(&self) -> bool;
}
