use std::path::{Path, PathBuf};

use burn_sparse::calibrate::CalibratedWeight;
use burn_sparse::checkpoint::Checkpoint;

use crate::Metric;
use crate::recipe::Recipe;
use crate::run::{EpochReport, Results, RunError, RunFolder};

/// Finished runs below a folder.
#[derive(Debug)]
pub struct Found {
    /// Folder that was searched.
    pub folder: PathBuf,
    /// Runs, in the order of their folders.
    pub runs: Vec<Run>,
}

/// A finished run.
#[derive(Debug)]
pub struct Run {
    /// Path of its folder relative to the one that was searched, without the part that names its seed; empty for the
    /// searched folder itself.
    pub name: String,
    /// Seed of its recipe.
    pub seed: u64,
    /// Its task.
    pub task: String,
    /// Metric of its checkpoint.
    pub metric: Metric,
    /// Metric of the dense model: at the end of the dense phase, or as it was pretrained; `None` without either.
    pub dense_metric: Option<Metric>,
    /// Share of zeros in the pruned weights.
    pub sparsity: f64,
    /// Its patterns; `dense` if nothing is pruned.
    pub pattern: String,
    /// Reports of its epochs.
    pub epochs: Vec<EpochReport>,
    /// What calibration did to each weight; empty without one.
    pub calibration: Vec<CalibratedWeight>,
    /// Size of its checkpoint file in bytes.
    pub bytes: u64,
    /// Its checkpoint.
    pub checkpoint: Checkpoint,
    /// Its recipe, with the run's own copy of a pretrained model.
    pub recipe: Recipe,
}

/// Finds the finished runs of a folder: its own run, or those of a sweep. Skips unfinished runs.
///
/// # Errors
/// Returns an error if a file cannot be read or is damaged, or if there is no finished run.
pub fn find(folder: &Path) -> Result<Found, RunError> {
    let mut folders = Vec::new();
    search(folder, &mut folders)?;
    folders.sort();
    let mut runs = Vec::new();
    for path in folders {
        runs.extend(read(folder, &path)?);
    }
    if runs.is_empty() {
        return Err(RunError::NothingFinished { folder: folder.into() });
    }
    Ok(Found { folder: folder.into(), runs })
}

/// Collects the folders of runs that have a checkpoint; does not search further inside a run's folder.
fn search(folder: &Path, into: &mut Vec<PathBuf>) -> Result<(), RunError> {
    if RunFolder::new(folder).checkpoint().is_file() {
        into.push(folder.into());
        return Ok(());
    }
    let fail =
        |source: std::io::Error| RunError::File { path: folder.into(), reason: source.to_string() };
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.is_dir() {
            search(&path, into)?;
        }
    }
    Ok(())
}

fn read(root: &Path, path: &Path) -> Result<Option<Run>, RunError> {
    let folder = RunFolder::new(path);
    let file = folder.checkpoint();
    let checkpoint = Checkpoint::read(&file)?;
    let Some(results) = Results::of(&checkpoint) else { return Ok(None) };
    let recipe = Recipe::of(&checkpoint)
        .map_err(|error| RunError::File { path: file.clone(), reason: error.to_string() })?;
    let Some(recipe) = recipe else { return Ok(None) };
    let fail =
        |source: std::io::Error| RunError::File { path: file.clone(), reason: source.to_string() };
    let bytes = std::fs::metadata(&file).map_err(fail)?.len();
    let patterns = checkpoint.patterns();
    Ok(Some(Run {
        name: name(root, path),
        seed: recipe.seed,
        task: recipe.task.clone(),
        metric: results.metric,
        dense_metric: results.dense_metric,
        sparsity: results.sparsity,
        pattern: if patterns.is_empty() { "dense".into() } else { patterns },
        epochs: folder.epochs()?,
        calibration: folder.calibration(),
        bytes,
        checkpoint,
        recipe: folder.with_own_model(recipe),
    }))
}

/// Returns the path of a run below `root`, without the folder of its seed.
fn name(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    let mut parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
    let is_seed = |part: &str| {
        let number = part.strip_prefix("seed-");
        number.is_some_and(|number| number.parse::<u64>().is_ok())
    };
    parts.pop_if(|part| is_seed(part));
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_folder_of_a_seed_is_left_out_of_a_name() {
        let name = |path: &str| name(Path::new("sweep"), Path::new(path));
        assert_eq!(name("sweep/seed-a/balanced-0.75/seed-3"), "seed-a/balanced-0.75");
        assert_eq!(name("sweep/dense/seed-3"), "dense");
        assert_eq!(name("sweep/seed-b"), "seed-b");
    }
}
