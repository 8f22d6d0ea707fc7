use std::path::PathBuf;

use burn::module::Module;
use burn::tensor::Device;
use burn_sparse::checkpoint::{Checkpoint, Form, Format, Provenance};
use burn_sparse::report::{LayerReport, layers};
use burn_sparse::train::Pruned;

use super::RunError;
use super::session::Session;
use super::state::State;
use crate::{Metric, Task};

/// Outputs of the packed and the masked model may differ by rounding alone.
const ALLOWED_DIFFERENCE: f32 = 1e-4;

/// Test samples that the packed and the masked model are compared on, and kernels reported for.
const COMPARED: usize = 256;

/// A finished run.
#[derive(Debug, Clone)]
pub struct Trained {
    /// The metric of the packed checkpoint, read back from its file.
    pub metric: Metric,
    /// The metric at the end of the dense phase, if there was one.
    pub dense_metric: Option<Metric>,
    /// The share of zeros of the pruned weights.
    pub sparsity: f64,
    /// The patterns, as a recipe spells them.
    pub pattern: String,
    /// Seconds of training and evaluation, over all sessions.
    pub seconds: f64,
    /// The checkpoint's file.
    pub checkpoint: PathBuf,
    /// Every matrix of the model with the kernel that ran.
    pub layers: Vec<LayerReport>,
}

impl<T: Task> Session<'_, T> {
    /// Writes the checkpoint, reads it back and proves that it is the model that was trained.
    pub(super) fn finish(
        &self,
        pruned: Pruned<T::Model>,
        state: State,
    ) -> Result<Trained, RunError> {
        let (path, unproven) = (self.folder.checkpoint(), self.folder.unproven());
        let recipe = Some(self.recipe.clone());
        let provenance = Provenance { recipe, ..Provenance::default() };
        let mut checkpoint = Checkpoint::of(&pruned, provenance)?;
        checkpoint.write(&unproven, Format::Packed)?;

        let read = Checkpoint::read(&unproven)?;
        let packed = |device: &Device| read.apply(self.task.model(device), Form::Packed);
        // On the CPU, whatever they were trained on: a GPU may multiply dense matrices with fewer bits (CUDA with
        // TF32's ten) than packed ones.
        let cpu = Device::flex();
        let masked = pruned.model.valid().to_device(&cpu);
        let (a, b) = (self.outputs(&masked, &cpu), self.outputs(&packed(&cpu)?, &cpu));
        // Outputs of a model that learnt nothing sensible may be large: rounding grows with them.
        let size = a.iter().map(|a| a.abs()).fold(1.0, f32::max);
        let allowed = ALLOWED_DIFFERENCE * size;
        let difference = difference(&a, &b);
        if difference.is_nan() || difference > allowed {
            return Err(RunError::Unfaithful { difference, allowed });
        }
        let device = self.device.clone().inner();
        let packed = packed(&device)?;
        let metric = self.task.evaluate(self.data, &packed, &device);
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
        checkpoint.provenance.results = serde_json::json!({
            "metric": trained.metric,
            "dense_metric": trained.dense_metric,
            "sparsity": trained.sparsity,
            "output_difference": difference,
        });
        checkpoint.write(&path, Format::Packed)?;
        // Left behind, it only costs space.
        let _ = std::fs::remove_file(unproven);
        Ok(trained)
    }

    fn outputs(&self, model: &T::Model, device: &Device) -> Vec<f32> {
        self.task.outputs(self.data, model, COMPARED, device)
    }
}

/// The largest difference of two lists; NaN where one is NaN, or they are no two lists of one length.
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
