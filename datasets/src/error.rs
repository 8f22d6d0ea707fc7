use std::path::PathBuf;

use thiserror::Error;

/// Error from loading a dataset.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The given folder does not contain the files.
    #[error(
        "{dataset} needs {} in {}{found}",
        files.join(", "),
        folder.display()
    )]
    Missing {
        /// Name of the dataset.
        dataset: &'static str,
        /// Files that are missing.
        files: Vec<String>,
        /// Folder that was searched.
        folder: PathBuf,
        /// End of the message: what was found instead, and what to do.
        found: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error from the operating system.
        source: std::io::Error,
    },
    /// A file does not have the expected content.
    #[error("{}: {what} is {found}, expected {expected}", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Field that is wrong.
        what: &'static str,
        /// Value that was found.
        found: String,
        /// Value that was expected.
        expected: String,
    },
    /// No vocabulary can be learned from the text.
    #[error("the text of {dataset} cannot be cut into tokens: {reason}")]
    Tokens {
        /// Name of the dataset.
        dataset: &'static str,
        /// Cause of the failure.
        reason: String,
    },
    /// The download failed.
    #[error(
        "{dataset} is not in {} and cannot be downloaded from {url}: {reason}; \
         put {} there, or name their folder with --data-dir",
        folder.display(),
        files.join(", ")
    )]
    Download {
        /// Name of the dataset.
        dataset: &'static str,
        /// Address of the download.
        url: String,
        /// Cause of the failure.
        reason: String,
        /// Folder that the files would be stored in.
        folder: PathBuf,
        /// Names of the files that could not be downloaded.
        files: Vec<String>,
    },
}
