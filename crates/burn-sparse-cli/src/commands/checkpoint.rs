use std::path::{Path, PathBuf};

use burn_sparse::checkpoint::Checkpoint;
use burn_sparse_run::run::RunFolder;

use super::Failure;

/// Reads a checkpoint, or that of a finished run.
pub(crate) fn read(path: &Path) -> Result<(PathBuf, Checkpoint), Failure> {
    let path = if path.is_dir() { RunFolder::new(path).checkpoint() } else { path.to_path_buf() };
    let checkpoint = Checkpoint::read(&path)?;
    Ok((path, checkpoint))
}
