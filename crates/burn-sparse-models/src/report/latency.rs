use std::hint::black_box;
use std::path::Path;

use burn::tensor::Device;
use burn::train::InferenceStep;
use burn_sparse::checkpoint::{Checkpoint, Form};
use burn_sparse::nn::Input;
use burn_sparse::report::{Bench, BenchRow, LayerReport, alternate, layers};
use serde::Serialize;

use crate::run::RunError;
use crate::{Task, TaskVisitor, with_task};

/// What a model takes for some samples, its loss included, dense and sparse in one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// Samples at a time.
    pub batch: usize,
    /// Median microseconds with Burn's dense layers.
    pub dense_us: f64,
    /// Median microseconds with packed weights.
    pub sparse_us: f64,
}

impl Latency {
    /// Dense over sparse.
    pub fn speedup(&self) -> f64 {
        self.dense_us / self.sparse_us
    }
}

/// A checkpoint at work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// The whole model.
    pub latency: Vec<Latency>,
    /// Every matrix with the kernel that ran for the largest of the batches.
    pub layers: Vec<LayerReport>,
    /// Every packed matrix alone, on what it was given with each of the batches.
    pub alone: Vec<Alone>,
}

/// A matrix of a model, multiplied alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alone {
    /// Its weight.
    pub name: String,
    /// Samples that the model was given.
    pub batch: usize,
    /// Its layer, with as many tokens or pictures as that makes.
    pub row: BenchRow,
}

/// Runs a checkpoint's model on test data, dense and packed in turns.
///
/// # Errors
/// When the checkpoint is of no known task or does not fit it, the data cannot be loaded, or a packed layer does
/// not answer as the dense one does.
pub fn measure(
    checkpoint: &Checkpoint,
    data_dir: Option<&Path>,
    batches: &[usize],
    device: &Device,
) -> Result<Measured, RunError> {
    let recipe = checkpoint.provenance.recipe.as_ref().ok_or(RunError::NoRecipe)?;
    with_task(&recipe.task, Measure { checkpoint, data_dir, batches, device, seed: recipe.seed })?
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
        let dense = self.checkpoint.apply(task.model(device), Form::Dense)?;
        let packed = self.checkpoint.apply(task.model(device), Form::Packed)?;
        let data = task.load(self.data_dir, self.seed)?;
        // Of a test set with fewer samples, as many as there are: a number is what it says.
        let mut batches: Vec<usize> =
            self.batches.iter().map(|&batch| batch.min(task.test_len(&data))).collect();
        batches.dedup();
        let pass = |model: &T::Model, batch: usize, repeats: usize| {
            for _ in 0..repeats {
                let batch = task.test_batch(&data, 0..batch, device);
                black_box(InferenceStep::step(model, batch));
            }
            // Devices that run behind the host would otherwise only have been told what to do.
            let _ = device.sync();
        };
        let latency = batches.iter().map(|&batch| {
            let [dense, sparse] = alternate(
                1,
                [&|repeats| pass(&dense, batch, repeats), &|repeats| pass(&packed, batch, repeats)],
            );
            Latency { batch, dense_us: 1e6 * dense, sparse_us: 1e6 * sparse }
        });
        let latency = latency.collect();
        let by_batch = batches
            .iter()
            .map(|&batch| (batch, layers(&packed, self.checkpoint, || pass(&packed, batch, 1))));
        let by_batch: Vec<_> = by_batch.collect();
        let mut alone = Vec::new();
        for (name, entry) in self.checkpoint.packed() {
            let given = by_batch.iter().filter_map(|(batch, layers)| {
                let layer = layers.iter().find(|layer| layer.name == name)?;
                Some((*batch, layer.input?))
            });
            let given: Vec<(usize, Input)> = given.collect();
            let Some((_, first)) = given.first() else { continue };
            let (packed, pattern, float) = (&entry.packed, entry.pattern, entry.float);
            let bench = match first {
                Input::Tokens(_) => Bench::new(packed, pattern, float, device),
                Input::Pictures { shape: [_, channels, height, width], window } => {
                    let picture = [*channels, *height, *width];
                    Bench::conv2d(packed, pattern, float, device, picture, *window)
                }
            };
            for (batch, input) in given {
                let inputs = match input {
                    Input::Tokens(tokens) => tokens,
                    Input::Pictures { shape: [pictures, ..], .. } => pictures,
                };
                alone.push(Alone { name: name.into(), batch, row: bench.row(inputs)? });
            }
        }
        let most = by_batch.into_iter().max_by_key(|&(batch, _)| batch);
        let layers = most.map_or(Vec::new(), |(_, layers)| layers);
        Ok(Measured { latency, layers, alone })
    }
}
