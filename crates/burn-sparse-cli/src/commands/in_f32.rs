use burn_sparse::checkpoint::{Checkpoint, Entry, ValueType};
use burn_sparse_run::Metric;
use burn_sparse_run::run::Results;
use serde::Serialize;

/// Metrics in f32 of a model in 8 or 4 bits, as recorded by its run: the loss from pruning without that from quantization.
#[derive(Debug, Serialize)]
pub(crate) struct InF32 {
    /// Metric of the pruned model.
    pruned: Metric,
    /// Metric of the dense model.
    #[serde(skip_serializing_if = "Option::is_none")]
    dense: Option<Metric>,
}

impl InF32 {
    /// Returns what the checkpoint's run recorded; `None` if its values are floats.
    pub(crate) fn of(checkpoint: &Checkpoint) -> Option<Self> {
        let is_float = |entry: &Entry| matches!(entry.value_type(), ValueType::Float(_));
        let rounded = !checkpoint.entries().values().all(is_float);
        let results = Results::of(checkpoint).filter(|_| rounded)?;
        Some(Self { pruned: results.metric, dense: results.dense_metric })
    }

    /// Returns a line of text.
    pub(crate) fn line(&self) -> String {
        let written = |metric: &Metric| Metric::written(&metric.name, metric.value);
        let dense = self
            .dense
            .as_ref()
            .map_or(String::new(), |dense| format!(", dense {}", written(dense)));
        format!("in f32 {}{dense}\n", written(&self.pruned))
    }
}
