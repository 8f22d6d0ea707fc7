//! One file per sub-command: what it may be told, and what it does.

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

/// What a command fails with: printed once, as it is.
type Failure = Box<dyn std::error::Error>;

/// The recipe of a command line: a file, the one that a checkpoint carries, or the built-in quickstart.
fn recipe(
    path: Option<&std::path::Path>,
    sets: &[String],
) -> Result<burn_sparse::recipe::Recipe, Failure> {
    use burn_sparse::recipe::Recipe;
    Ok(match path {
        Some(path) if path.is_dir() || path.extension().is_some_and(|e| e == "safetensors") => {
            let (path, checkpoint) = checkpoint::read(path)?;
            match checkpoint.provenance.recipe {
                Some(recipe) => Recipe::parse_with(&recipe.to_toml(), sets)?,
                None => return Err(format!("{} carries no recipe", path.display()).into()),
            }
        }
        Some(path) => Recipe::load_with(path, sets)?,
        None => Recipe::parse_with(include_str!("../../../../recipes/quickstart.toml"), sets)?,
    })
}
