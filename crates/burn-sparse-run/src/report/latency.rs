use std::collections::BTreeSet;
use std::hint::black_box;
use std::path::Path;

use burn::tensor::Device;
use burn_sparse::checkpoint::Checkpoint;
use burn_sparse::measure::{Bench, BenchRow, LayerReport, layers};
use burn_sparse::nn::KernelInput;
use serde::Serialize;

use crate::latency::Latency;
use crate::recipe::Recipe;
use crate::run::RunError;
use crate::{Task, TaskVisitor, with_task};

/// Measurements of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// Latency of the whole model, for each batch size.
    pub latency: Vec<Latency>,
    /// Every matrix, with the kernel that ran for the largest batch.
    pub layers: Vec<LayerReport>,
    /// Every packed matrix alone, with the input size that it had for each batch.
    pub alone: Vec<Alone>,
}

/// Measurement of a single matrix of a model, multiplied alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alone {
    /// Name of its weight.
    pub name: String,
    /// Number of samples in the model's batch.
    pub batch: usize,
    /// Benchmark of its layer, on the number of tokens or images that such a batch gives it.
    pub row: BenchRow,
}

/// Measures a checkpoint's model on the test data of its recipe's task, alternating dense and packed runs.
///
/// # Errors
/// Returns an error if the task is unknown or the checkpoint does not fit it, if the data cannot be loaded, or if a
/// packed layer does not compute the same as the dense one.
pub fn measure(
    checkpoint: &Checkpoint,
    recipe: &Recipe,
    data_dir: Option<&Path>,
    batches: &[usize],
    device: &Device,
) -> Result<Measured, RunError> {
    with_task(recipe, Measure { checkpoint, data_dir, batches, device, seed: recipe.seed })?
}

struct Measure<'a> {
    checkpoint: &'a Checkpoint,
    data_dir: Option<&'a Path>,
    batches: &'a [usize],
    device: &'a Device,
    seed: u64,
}

impl TaskVisitor for Measure<'_> {
    type Output = Result<Measured, RunError>;

    fn visit<T: Task>(self, task: T) -> Self::Output {
        let device = self.device;
        let dense = self.checkpoint.load_dense(task.model(device))?;
        let packed = self.checkpoint.load(task.model(device))?;
        let data = task.load_test(self.data_dir, self.seed)?;
        // Limits batches to the size of the test set, so that the reported number of samples is the actual one.
        let mut batches: Vec<usize> =
            self.batches.iter().map(|&batch| batch.min(task.test_len(&data))).collect();
        let mut seen = BTreeSet::new();
        batches.retain(|&batch| seen.insert(batch));
        let forms = [&dense, &packed];
        let latency = batches
            .iter()
            .map(|&batch| Latency::measure(&task, &data, forms, batch, device))
            .collect();
        let by_batch = batches.iter().map(|&batch| {
            let pass = || drop(black_box(task.outputs(&data, &packed, batch, device)));
            (batch, layers(&packed, self.checkpoint, pass))
        });
        let by_batch: Vec<_> = by_batch.collect();
        let mut alone = Vec::new();
        for (name, entry) in self.checkpoint.packed() {
            let given = by_batch.iter().filter_map(|(batch, layers)| {
                let layer = layers.iter().find(|layer| layer.name == name)?;
                Some((*batch, layer.input?))
            });
            let given: Vec<(usize, KernelInput)> = given.collect();
            let Some((_, first)) = given.first() else { continue };
            let (packed, pattern, values) = (&entry.packed, entry.pattern, entry.value_type());
            let bench = Bench::for_input(packed, pattern, values, device, first);
            for (batch, input) in given {
                alone.push(Alone { name: name.into(), batch, row: bench.row(input.inputs())? });
            }
        }
        let most = by_batch.into_iter().max_by_key(|&(batch, _)| batch);
        let layers = most.map_or(Vec::new(), |(_, layers)| layers);
        Ok(Measured { latency, layers, alone })
    }
}
