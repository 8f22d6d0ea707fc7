use std::path::{Path, PathBuf};

use burn_sparse::checkpoint::Checkpoint;
use burn_sparse_run::run::RunFolder;

use super::Failure;

/// Reads a checkpoint: a file, that of a finished run, or that of the packed folder of a pretrained model.
pub(crate) fn read(path: &Path) -> Result<(PathBuf, Checkpoint), Failure> {
    let of_run = RunFolder::new(path).checkpoint();
    let path = match path {
        _ if !path.is_dir() => path.to_path_buf(),
        _ if path.join("config.json").exists() => path.join("model.safetensors"),
        _ if of_run.exists() => of_run,
        _ => {
            return Err(format!(
                "{} has neither a checkpoint.safetensors nor a config.json: expected the folder of a finished run, or of a \
                 pretrained model",
                path.display()
            )
            .into());
        }
    };
    let checkpoint = Checkpoint::read(&path)?;
    Ok((path, checkpoint))
}
