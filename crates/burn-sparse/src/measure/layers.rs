use burn::module::Module;
use burn_sparse_kernels::Predicted;
use burn_sparse_pattern::Packed;
use burn_sparse_pattern::format::View;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{Checkpoint, Entry};
use crate::nn::{Dispatched, KernelInput, record_dispatch};
use crate::params::{parameters, view_of};

/// Weight of a model, and the kernel that ran for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LayerReport {
    /// Path of the weight.
    pub name: String,
    /// Pattern of the mask, or `dense`.
    pub pattern: String,
    /// Number of outputs.
    pub rows: usize,
    /// Size of the reduction.
    pub cols: usize,
    /// Share of zeros of the mask.
    pub sparsity: f64,
    /// Hash of the mask; `None` for dense weights.
    pub mask_hash: Option<String>,
    /// Name of the kernel that ran, or `dense, because …`.
    pub kernel: String,
    /// Input of the first call of a packed weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<KernelInput>,
    /// Predicted times that the choice was based on, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
}

/// Runs `forward` once, and reports every matrix of the model with the kernel that ran for it.
pub fn layers<M: Module>(
    model: &M,
    checkpoint: &Checkpoint,
    forward: impl FnOnce(),
) -> Vec<LayerReport> {
    let ((), ran) = record_dispatch(forward);
    let mut reports = Vec::new();
    for parameter in parameters(model) {
        let Some(entry) = checkpoint.entries().get(&parameter.name) else { continue };
        let Some(view) = view_of(&parameter.layer, &parameter.name, &entry.shape()) else {
            continue;
        };
        let run = ran.iter().find(|run| run.weight == parameter.id);
        reports.push(report(&parameter.name, &view, entry, run));
    }
    reports
}

/// Reports every matrix of a model that is not pruned, without running it.
pub fn dense_layers<M: Module>(model: &M) -> Vec<LayerReport> {
    let views = parameters(model).into_iter().filter_map(|parameter| {
        let view = view_of(&parameter.layer, &parameter.name, &parameter.shape)?;
        Some((parameter.name, view))
    });
    let report = |(name, view): (String, View)| LayerReport {
        name,
        pattern: "dense".into(),
        rows: view.rows(),
        cols: view.cols(),
        sparsity: 0.0,
        mask_hash: None,
        kernel: NOT_PRUNED.into(),
        input: None,
        predicted: None,
    };
    views.map(report).collect()
}

/// Kernel that is reported for a matrix that is not packed.
const NOT_PRUNED: &str = "dense, because it is not pruned";

fn report(name: &str, view: &View, entry: &Entry, run: Option<&Dispatched>) -> LayerReport {
    let (pattern, packed) = match entry {
        Entry::Dense { .. } => ("dense".into(), None),
        Entry::Packed(entry) => (entry.pattern.to_string(), Some(&entry.packed)),
    };
    let kernel = match (run, entry) {
        (Some(run), _) => run.choice.to_string(),
        (None, Entry::Dense { .. }) => NOT_PRUNED.into(),
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
