//! The sub-commands: one file each, with its arguments.

mod bench;
mod checkpoint;
mod embed;
mod eval;
mod export;
mod generate;
mod import;
mod in_f32;
mod inspect;
mod plan;
mod pretrained;
mod prune;
mod report;
mod sweep;
mod train;

pub(crate) use bench::{BenchArguments, bench};
pub(crate) use embed::{EmbedArguments, embed};
pub(crate) use eval::{EvalArguments, eval};
pub(crate) use export::{ExportArguments, export};
pub(crate) use generate::{GenerateArguments, generate};
pub(crate) use import::{ImportArguments, import};
pub(crate) use inspect::{InspectArguments, inspect};
pub(crate) use plan::{PlanArguments, plan};
pub(crate) use prune::{PruneArguments, prune};
pub(crate) use report::{ReportArguments, report};
pub(crate) use sweep::{SweepArguments, sweep};
pub(crate) use train::{TrainArguments, train};

use crate::failure::Failure;
use crate::recipes;

/// Returns the recipe that a command names: a file, the recipe of a checkpoint, or a built-in one.
fn recipe(
    path: Option<&std::path::Path>,
    sets: &[String],
) -> Result<burn_sparse_run::recipe::Recipe, Failure> {
    use burn_sparse_run::recipe::Recipe;
    // A file or a folder wins over the built-in recipe of its name.
    let name = match path {
        None => Some(recipes::DEFAULT),
        Some(path) if path.exists() => None,
        Some(path) => path.to_str(),
    };
    if let Some(text) = name.and_then(recipes::named) {
        return Ok(Recipe::parse_with(text, sets)?);
    }
    let path = path.unwrap_or(std::path::Path::new(""));
    if path.is_dir() || path.extension().is_some_and(|e| e == "safetensors") {
        let (path, checkpoint) = checkpoint::read(path)?;
        return match checkpoint.provenance().recipe() {
            Some(recipe) => Ok(Recipe::parse_with(recipe, sets)?),
            None => Err(format!("{} carries no recipe", path.display()).into()),
        };
    }
    if !path.exists() {
        return Err(
            format!("cannot read recipe {}: {}", path.display(), recipes::hint(path)).into()
        );
    }
    Ok(Recipe::load_with(path, sets)?)
}
