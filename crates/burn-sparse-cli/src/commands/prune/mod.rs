//! `burn-sparse prune`: one-shot pruning of files and of pretrained models.

mod arguments;
mod command;
mod file;
mod folder;
mod usage;

pub(crate) use arguments::PruneArguments;
use arguments::PruneFormat;
pub(crate) use command::prune;
