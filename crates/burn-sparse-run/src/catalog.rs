use burn_sparse_models::huggingface::{Folder, ModelConfig};

use crate::recipe::{DataConfig, Recipe};
use crate::task_error::{CAUSAL_LM, NAMES, SENTENCE_EMBEDDING, TaskError};
use crate::{
    CausalLmTask, Cifar10Task, ImageTask, LstmLmTask, SentenceEmbeddingTask, Task, TranslationTask,
};

/// Operation on a task of any type.
pub trait TaskVisitor {
    /// Result.
    type Output;
    /// Runs the operation.
    fn visit<T: Task>(self, task: T) -> Self::Output;
}

/// Runs an operation on the task of a recipe.
///
/// # Errors
/// Returns an error when no task has the name, its pretrained model cannot be opened, or a key does not fit it.
pub fn with_task<V: TaskVisitor>(recipe: &Recipe, visitor: V) -> Result<V::Output, TaskError> {
    let name = recipe.task.as_str();
    if [SENTENCE_EMBEDDING, CAUSAL_LM].contains(&name) {
        return with_pretrained(recipe, visitor);
    }
    if !NAMES.contains(&name) {
        return Err(TaskError::Unknown { name: name.into() });
    }
    let reason = "has no pretrained model: leave the key out";
    if recipe.model.is_some() {
        return Err(TaskError::Key { key: "model", task: name.into(), reason });
    }
    if recipe.data != DataConfig::default() {
        return Err(TaskError::Key { key: "data", task: name.into(), reason });
    }
    if recipe.calibrate.is_some_and(|calibrate| calibrate.reconstruct > 0) {
        let reason = "is not split into blocks that could be reconstructed: leave the key out";
        return Err(TaskError::Key { key: "calibrate.reconstruct", task: name.into(), reason });
    }
    let width = recipe.width;
    Ok(match name {
        "glyphs-mlp" => visitor.visit(ImageTask::glyphs().narrowed(width)),
        "mnist-mlp" => visitor.visit(ImageTask::mnist().narrowed(width)),
        "cifar10-convnet" => visitor.visit(Cifar10Task::convnet().narrowed(width)),
        "cifar10-resnet" => visitor.visit(Cifar10Task::resnet().narrowed(width)),
        "cifar10-resnet-large" => visitor.visit(Cifar10Task::resnet_large().narrowed(width)),
        "cifar10-vgg" => visitor.visit(Cifar10Task::vgg().narrowed(width)),
        "cifar10-vgg-large" => visitor.visit(Cifar10Task::vgg_large().narrowed(width)),
        "lstm-lm" => visitor.visit(LstmLmTask::small().narrowed(width)),
        "lstm-lm-large" => visitor.visit(LstmLmTask::large().narrowed(width)),
        "translation" => visitor.visit(TranslationTask::small().narrowed(width)),
        _ => visitor.visit(TranslationTask::large().narrowed(width)),
    })
}

fn with_pretrained<V: TaskVisitor>(recipe: &Recipe, visitor: V) -> Result<V::Output, TaskError> {
    let (task, data) = (&recipe.task, recipe.data.clone());
    let Some(model) = &recipe.model else {
        let reason = "needs a Hugging Face folder: set `model`";
        return Err(TaskError::Key { key: "model", task: task.clone(), reason });
    };
    if recipe.width != 1.0 {
        let reason = "has a pretrained model, with a width of its own: leave the key out";
        return Err(TaskError::Key { key: "width", task: task.clone(), reason });
    }
    let embeds = task == SENTENCE_EMBEDDING;
    let folder = Folder::find(model)?;
    match folder.config().clone() {
        ModelConfig::Bert(config) if embeds => {
            Ok(visitor.visit(SentenceEmbeddingTask::new(folder, config, data)))
        }
        ModelConfig::Llama(config) if !embeds => {
            Ok(visitor.visit(CausalLmTask::new(folder, config, data)))
        }
        _ => Err(TaskError::OtherModel { folder: model.clone(), task: task.clone() }),
    }
}
