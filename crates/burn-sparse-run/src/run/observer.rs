use std::collections::BTreeMap;

use burn_sparse::calibrate::CalibrationStep;
use serde::{Deserialize, Serialize};

/// Phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Training without masks.
    Dense,
    /// Fine-tuning under masks.
    Prune,
}

impl Phase {
    /// Returns the name of the phase.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Prune => "prune",
        }
    }
}

/// Report on an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EpochReport {
    /// Phase.
    pub phase: Phase,
    /// Epoch of the phase, from 1.
    pub epoch: usize,
    /// Number of epochs of the phase.
    pub epochs: usize,
    /// Mean training loss.
    pub loss: f64,
    /// Name of the metric.
    pub metric: String,
    /// Value of the metric on the test data.
    pub value: f64,
    /// Share of zeros of the planned weights at the end of the epoch.
    pub sparsity: f64,
    /// Share of zeros of the weights of each pattern.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub patterns: BTreeMap<String, f64>,
    /// Share of the searched masks that changed.
    pub mask_changed: f64,
    /// Seconds spent on mask updates.
    pub mask_seconds: f64,
    /// Seconds of the epoch, including evaluation.
    pub seconds: f64,
    /// Steps of the epoch.
    #[serde(default)]
    pub steps: StepTimes,
    /// Number of ranks that train together.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub ranks: usize,
    /// Bytes of weights, masks, gradients, and optimizer state at the end of the epoch.
    #[serde(default)]
    pub trained_bytes: u64,
}

/// Mean seconds of an optimizer step by the form of pruned weights, without mask updates; `None` if no step used that form.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StepTimes {
    /// Dense weights, and those under masks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masked: Option<f64>,
    /// Packed weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packed: Option<f64>,
    /// Messages of a step of the first form; `None` with one rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masked_traffic: Option<StepTraffic>,
    /// Messages of a step of the second form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packed_traffic: Option<StepTraffic>,
}

/// Mean messages of an optimizer step on rank 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepTraffic {
    /// Bytes of gradients and statistics that every rank contributes to averaging.
    pub bytes: f64,
    /// Share of the step spent on messages: transfers, sums, and waiting for slower ranks.
    pub share: f64,
}

fn one() -> usize {
    1
}

fn is_one(ranks: &usize) -> bool {
    *ranks == 1
}

/// Observes a run, and may interrupt it.
pub trait Observer {
    /// Called after step `step` of `steps` in an epoch.
    fn step(&mut self, phase: Phase, epoch: usize, step: usize, steps: usize, loss: f64);

    /// Called after each weight that is calibrated, and after each block that is reconstructed.
    fn calibrated(&mut self, _step: CalibrationStep<'_>) {}

    /// Called after an epoch.
    fn epoch(&mut self, report: &EpochReport);

    /// Returns `true` to stop now, resumably.
    fn interrupted(&self) -> bool;
}
