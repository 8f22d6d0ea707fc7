use thiserror::Error;

use crate::{Cifar10Task, ImageTask, LstmLmTask, Task, TranslationTask};

/// Unknown task.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown task `{name}`{}; tasks are {}", hint(.name), NAMES.join(", "))]
pub struct TaskError {
    /// Requested name.
    pub name: String,
}

const NAMES: [&str; 11] = [
    "glyphs-mlp",
    "mnist-mlp",
    "cifar10-convnet",
    "cifar10-resnet",
    "cifar10-resnet-large",
    "cifar10-vgg",
    "cifar10-vgg-large",
    "lstm-lm",
    "lstm-lm-large",
    "translation",
    "translation-large",
];

fn hint(name: &str) -> String {
    let near = |known: &&&str| strsim::damerau_levenshtein(name, known) <= 3;
    NAMES.iter().find(near).map_or(String::new(), |known| format!(", did you mean `{known}`?"))
}

/// Operation on a task of any type.
pub trait TaskVisitor {
    /// Result.
    type Output;
    /// Runs the operation.
    fn visit<T: Task>(self, task: T) -> Self::Output;
}

/// Runs an operation on the task of this name.
///
/// # Errors
/// When there is none of the name.
pub fn with_task<V: TaskVisitor>(name: &str, visitor: V) -> Result<V::Output, TaskError> {
    match name {
        "glyphs-mlp" => Ok(visitor.visit(ImageTask::Glyphs)),
        "mnist-mlp" => Ok(visitor.visit(ImageTask::Mnist)),
        "cifar10-convnet" => Ok(visitor.visit(Cifar10Task::convnet())),
        "cifar10-resnet" => Ok(visitor.visit(Cifar10Task::resnet())),
        "cifar10-resnet-large" => Ok(visitor.visit(Cifar10Task::resnet_large())),
        "cifar10-vgg" => Ok(visitor.visit(Cifar10Task::vgg())),
        "cifar10-vgg-large" => Ok(visitor.visit(Cifar10Task::vgg_large())),
        "lstm-lm" => Ok(visitor.visit(LstmLmTask::Small)),
        "lstm-lm-large" => Ok(visitor.visit(LstmLmTask::Large)),
        "translation" => Ok(visitor.visit(TranslationTask::Small)),
        "translation-large" => Ok(visitor.visit(TranslationTask::Large)),
        _ => Err(TaskError { name: name.into() }),
    }
}
