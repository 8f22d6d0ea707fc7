//! One file per sub-command.

mod bench;
mod checkpoint;
mod eval;
mod export;
mod import;
mod inspect;
mod plan;
mod prune;
mod report;
mod sensitivity;
mod sweep;
mod train;

pub(crate) use bench::bench;
pub(crate) use eval::eval;
pub(crate) use export::export;
pub(crate) use import::import;
pub(crate) use inspect::inspect;
pub(crate) use plan::plan;
pub(crate) use prune::prune;
pub(crate) use report::report;
pub(crate) use sweep::sweep;
pub(crate) use train::train;

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
