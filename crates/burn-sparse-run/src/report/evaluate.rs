use std::path::Path;

use burn::tensor::Device;
use burn_sparse::checkpoint::Checkpoint;

use crate::recipe::Recipe;
use crate::run::RunError;
use crate::{Metric, Task, TaskVisitor, with_task};

/// Evaluates a checkpoint on the test data of its recipe's task.
///
/// # Errors
/// Returns an error if the task is unknown or the checkpoint does not fit it, or if the data cannot be loaded.
pub fn evaluate(
    checkpoint: &Checkpoint,
    recipe: &Recipe,
    data_dir: Option<&Path>,
    device: &Device,
) -> Result<Metric, RunError> {
    with_task(recipe, Evaluate { checkpoint, data_dir, device, seed: recipe.seed })?
}

struct Evaluate<'a> {
    checkpoint: &'a Checkpoint,
    data_dir: Option<&'a Path>,
    device: &'a Device,
    seed: u64,
}

impl TaskVisitor for Evaluate<'_> {
    type Output = Result<Metric, RunError>;

    fn visit<T: Task>(self, task: T) -> Self::Output {
        let model = self.checkpoint.load(task.model(self.device))?;
        let data = task.load_test(self.data_dir, self.seed)?;
        task.evaluate(&data, &model, self.device)?.finite()
    }
}
