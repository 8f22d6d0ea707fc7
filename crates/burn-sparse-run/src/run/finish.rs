use std::path::PathBuf;

use burn::module::Module;
use burn::tensor::Device;
use burn_sparse::checkpoint::{Checkpoint, Format, Provenance};
use burn_sparse::measure::{LayerReport, layers};
use burn_sparse::train::Pruned;
use serde_json::Value;

use super::folder::fail;
use super::results::Results;
use super::session::Session;
use super::state::State;
use super::{RunError, RunFolder};
use crate::{Metric, Task};

/// Largest rounding difference between outputs of the packed and the masked model.
const ALLOWED_DIFFERENCE: f32 = 1e-4;

/// Results of a finished run.
#[derive(Debug, Clone)]
pub struct Trained {
    /// Metric of the packed checkpoint, read back from its file.
    pub metric: Metric,
    /// Metric of the dense model: at the end of the dense phase, or as it was pretrained; `None` without either.
    pub dense_metric: Option<Metric>,
    /// Share of zeros of the pruned weights.
    pub sparsity: f64,
    /// Patterns, as a recipe spells them.
    pub pattern: String,
    /// Seconds of training and evaluation over all sessions.
    pub seconds: f64,
    /// File of the checkpoint.
    pub checkpoint: PathBuf,
    /// Every matrix of the model, with the kernel that ran for it.
    pub layers: Vec<LayerReport>,
}

impl<T: Task> Session<'_, T> {
    /// Writes the checkpoint, reads it back, and proves that it equals the trained model.
    pub(super) fn finish(
        &self,
        pruned: Pruned<T::Model>,
        state: State,
        folder: &RunFolder,
    ) -> Result<Trained, RunError> {
        let (path, unproven) = (folder.checkpoint(), folder.unproven());
        let provenance = Provenance::default()
            .with_recipe(self.recipe.to_toml())
            .with_plan(pruned.plan().clone());
        let checkpoint = pruned.checkpoint().with_provenance(provenance.clone());
        checkpoint.write(&unproven, Format::Packed)?;

        let read = Checkpoint::read(&unproven)?;
        let packed = |device: &Device| read.load(self.task.model(device));
        // Compares on the CPU: a GPU may multiply dense matrices with fewer bits (TF32) than packed ones.
        let cpu = Device::flex();
        let masked = pruned.model().valid().to_device(&cpu);
        let (a, b) = (self.outputs(&masked, &cpu), self.outputs(&packed(&cpu)?, &cpu));
        // Rounding grows with the outputs, which may be large for a badly trained model.
        let size = a.iter().map(|a| a.abs()).fold(1.0, f32::max);
        let allowed = ALLOWED_DIFFERENCE * size;
        let difference = difference(&a, &b);
        if difference.is_nan() || difference > allowed {
            return Err(RunError::Unfaithful { difference, allowed });
        }
        let device = self.device.clone().inner();
        let packed = packed(&device)?;
        let metric = self.task.evaluate(self.data, &packed, &device)?.finite()?;
        let layers = layers(&packed, &read, || {
            self.outputs(&packed, &device);
        });
        let trained = Trained {
            metric,
            dense_metric: state.dense_metric,
            sparsity: pruned.sparsity(),
            pattern: read.patterns(),
            seconds: state.seconds,
            checkpoint: path.clone(),
            layers,
        };
        let results = Results {
            dense_metric: trained.dense_metric.clone(),
            metric: trained.metric.clone(),
            output_difference: f64::from(difference),
            sparsity: trained.sparsity,
            calibration: folder.calibration_record().map(without_times),
        };
        let provenance = provenance.with_results(results.to_json());
        checkpoint.with_provenance(provenance).write(&unproven, Format::Packed)?;
        if let Some(pretrained) = self.task.folder() {
            folder.share(&unproven, &pretrained.copy_to(&folder.model())?)?;
        }
        // Last: a run with this file is finished.
        std::fs::rename(&unproven, &path).map_err(|error| fail(&path, error))?;
        Ok(trained)
    }

    fn outputs(&self, model: &T::Model, device: &Device) -> Vec<f32> {
        self.task.outputs(self.data, model, self.task.compared(self.data), device)
    }
}

/// Removes the times of a record: a checkpoint does not depend on how fast its run was.
fn without_times(mut record: Value) -> Value {
    let mut remove = |part: &mut Value| {
        part.as_object_mut().map(|part| part.remove("seconds"));
    };
    remove(&mut record);
    for list in ["weights", "blocks"] {
        record
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
            .for_each(&mut remove);
    }
    record
}

/// Returns the largest difference of two slices; NaN if it is undefined.
fn difference(a: &[f32], b: &[f32]) -> f32 {
    if a.is_empty() || a.len() != b.len() {
        return f32::NAN;
    }
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |most, next| if most.is_nan() || next <= most { most } else { next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_that_cannot_be_compared_never_count_as_equal() {
        assert_eq!(difference(&[1.0, 2.0], &[1.0, 2.5]), 0.5);
        for (a, b) in [
            (&[][..], &[][..]),
            (&[1.0], &[1.0, 2.0]),
            (&[f32::NAN], &[1.0]),
            (&[f32::NAN, 1.0], &[f32::NAN, 1.0]),
            (&[f32::INFINITY], &[f32::INFINITY]),
        ] {
            assert!(difference(a, b).is_nan());
        }
    }
}
