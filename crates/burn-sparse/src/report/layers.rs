use burn::module::Module;
use burn_sparse_kernels::Predicted;
use burn_sparse_pattern::Packed;
use burn_sparse_pattern::format::View;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{Checkpoint, Entry};
use crate::modules::{parameters, view_of};
use crate::nn::{Dispatched, Input, record_dispatch};

/// One weight of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerReport {
    /// Its path.
    pub name: String,
    /// The pattern of its mask, or `dense`.
    pub pattern: String,
    /// Outputs.
    pub rows: usize,
    /// Reduction.
    pub cols: usize,
    /// The share of zeros of its mask.
    pub sparsity: f64,
    /// The fingerprint of its mask; none for dense weights.
    pub mask_hash: Option<String>,
    /// What ran when `forward` was called: a kernel's name, or `dense, because …`.
    pub kernel: String,
    /// What it was multiplied with in the first call, where a packed weight was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Input>,
    /// What the choice rested on, where it rested on measured costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
}

/// Runs `forward` once and reports every matrix of the model with the kernel that really ran.
pub fn layers<M: Module>(
    model: &M,
    checkpoint: &Checkpoint,
    forward: impl FnOnce(),
) -> Vec<LayerReport> {
    let ((), ran) = record_dispatch(forward);
    let mut reports = Vec::new();
    for parameter in parameters(model) {
        let Some(entry) = checkpoint.entries.get(&parameter.name) else { continue };
        let Some(view) = view_of(&parameter.layer, &parameter.name, &entry.shape()) else {
            continue;
        };
        let run = ran.iter().find(|run| run.weight == parameter.id);
        reports.push(report(&parameter.name, &view, entry, run));
    }
    reports
}

fn report(name: &str, view: &View, entry: &Entry, run: Option<&Dispatched>) -> LayerReport {
    let (pattern, packed) = match entry {
        Entry::Dense { .. } => ("dense".into(), None),
        Entry::Packed(entry) => (entry.pattern.to_string(), Some(&entry.packed)),
    };
    let kernel = match (run, entry) {
        (Some(run), _) => run.choice.to_string(),
        (None, Entry::Dense { .. }) => "dense, because it is not pruned".into(),
        (None, Entry::Packed(_)) => {
            "dense, because its layer is not of burn_sparse::nn and unpacks its weight".into()
        }
    };
    LayerReport {
        name: name.into(),
        pattern,
        rows: view.rows(),
        cols: view.cols(),
        sparsity: packed.map_or(0.0, Packed::sparsity),
        mask_hash: packed.map(Packed::mask_hash),
        kernel,
        input: run.map(|run| run.input),
        predicted: run.and_then(|run| run.choice.predicted()),
    }
}
