use std::hint::black_box;

use burn::tensor::Device;
use burn_sparse::measure::alternate;
use serde::Serialize;

use crate::Task;

/// Latency of a model on a batch, until its outputs are read, dense and sparse in one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// Number of samples in the batch.
    pub batch: usize,
    /// Median microseconds with Burn's dense layers.
    pub dense_us: f64,
    /// Median microseconds with packed weights.
    pub sparse_us: f64,
}

impl Latency {
    /// Returns the dense latency divided by the sparse one.
    pub fn speedup(&self) -> f64 {
        self.dense_us / self.sparse_us
    }

    /// Measures the dense and the packed form of a model on the first `batch` test samples, alternating.
    pub(crate) fn measure<T: Task>(
        task: &T,
        data: &T::Data,
        [dense, packed]: [&T::Model; 2],
        batch: usize,
        device: &Device,
    ) -> Self {
        let pass = |model: &T::Model, repeats: usize| {
            for _ in 0..repeats {
                black_box(task.outputs(data, model, batch, device));
            }
        };
        let [dense, sparse] =
            alternate(1, [&|repeats| pass(dense, repeats), &|repeats| pass(packed, repeats)]);
        Self { batch, dense_us: 1e6 * dense, sparse_us: 1e6 * sparse }
    }
}
