//! The sub-commands: one file each, with its arguments.

mod bench;
mod checkpoint;
mod eval;
mod export;
mod import;
mod inspect;
mod plan;
mod prune;
mod report;
mod sweep;
mod train;

pub(crate) use bench::{BenchArguments, bench};
pub(crate) use eval::{EvalArguments, eval};
pub(crate) use export::{ExportArguments, export};
pub(crate) use import::{ImportArguments, import};
pub(crate) use inspect::{InspectArguments, inspect};
pub(crate) use plan::{PlanArguments, plan};
pub(crate) use prune::{PruneArguments, prune};
pub(crate) use report::{ReportArguments, report};
pub(crate) use sweep::{SweepArguments, sweep};
pub(crate) use train::{TrainArguments, train};

/// Failure of a command, printed once.
type Failure = Box<dyn std::error::Error>;

/// Returns the recipe that a command names: a file, the recipe of a checkpoint, or the built-in quickstart.
fn recipe(
    path: Option<&std::path::Path>,
    sets: &[String],
) -> Result<burn_sparse_run::recipe::Recipe, Failure> {
    use burn_sparse_run::recipe::Recipe;
    Ok(match path {
        Some(path) if path.is_dir() || path.extension().is_some_and(|e| e == "safetensors") => {
            let (path, checkpoint) = checkpoint::read(path)?;
            match checkpoint.provenance().recipe() {
                Some(recipe) => Recipe::parse_with(recipe, sets)?,
                None => return Err(format!("{} carries no recipe", path.display()).into()),
            }
        }
        Some(path) => Recipe::load_with(path, sets)?,
        None => Recipe::parse_with(include_str!("../../../../recipes/quickstart.toml"), sets)?,
    })
}
