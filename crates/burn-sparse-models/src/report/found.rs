use std::path::{Path, PathBuf};

use burn_sparse::checkpoint::Checkpoint;

use crate::Metric;
use crate::run::{EpochReport, RunError, RunFolder};

/// The finished runs below a folder.
#[derive(Debug)]
pub struct Found {
    /// Where they were found.
    pub folder: PathBuf,
    /// In the order of their names.
    pub runs: Vec<Run>,
}

/// A finished run.
#[derive(Debug)]
pub struct Run {
    /// Its folder below the one that was searched, without the part that names its seed; empty for the folder
    /// itself.
    pub name: String,
    /// The seed of its recipe.
    pub seed: u64,
    /// Its task.
    pub task: String,
    /// The metric of its checkpoint.
    pub metric: Metric,
    /// The metric at the end of its dense phase, if it had one.
    pub dense_metric: Option<Metric>,
    /// The share of zeros of the pruned weights.
    pub sparsity: f64,
    /// Its patterns; `dense` where nothing is pruned.
    pub pattern: String,
    /// What every epoch did.
    pub epochs: Vec<EpochReport>,
    /// The size of its checkpoint's file.
    pub bytes: u64,
    /// Its checkpoint.
    pub checkpoint: Checkpoint,
}

/// Finds them: the folder's own run, or those of a sweep. Runs that are not finished are left out.
///
/// # Errors
/// When a file cannot be read, is damaged, or when there is no finished run.
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

/// Folders of runs that have a checkpoint; a run's own folder is not searched further.
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
    let results = &checkpoint.provenance.results;
    let metric = |key: &str| serde_json::from_value::<Metric>(results[key].clone()).ok();
    // The file is written once before its results are known.
    let (Some(found), Some(recipe)) = (metric("metric"), &checkpoint.provenance.recipe) else {
        return Ok(None);
    };
    let fail =
        |source: std::io::Error| RunError::File { path: file.clone(), reason: source.to_string() };
    let bytes = std::fs::metadata(&file).map_err(fail)?.len();
    let patterns = checkpoint.patterns();
    Ok(Some(Run {
        name: name(root, path),
        seed: recipe.seed,
        task: recipe.task.clone(),
        metric: found,
        dense_metric: metric("dense_metric"),
        sparsity: results["sparsity"].as_f64().unwrap_or(0.0),
        pattern: if patterns.is_empty() { "dense".into() } else { patterns },
        epochs: folder.epochs()?,
        bytes,
        checkpoint,
    }))
}

fn name(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    let parts = below.iter().map(|part| part.to_string_lossy());
    let parts: Vec<_> = parts.filter(|part| !part.starts_with("seed-")).collect();
    parts.join("/")
}
