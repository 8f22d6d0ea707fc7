use std::path::PathBuf;

use thiserror::Error;

/// Why a data set cannot be loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The folder that was named does not hold the files.
    #[error(
        "{dataset} needs {} in {}{found}",
        files.join(", "),
        folder.display()
    )]
    Missing {
        /// The data set.
        dataset: &'static str,
        /// The files that are missing.
        files: Vec<String>,
        /// Where they were looked for.
        folder: PathBuf,
        /// What there was instead, and what to do.
        found: String,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },
    /// A file that is not what its name says.
    #[error("{}: {what} is {found}, expected {expected}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The field.
        what: &'static str,
        /// What it holds.
        found: String,
        /// What it should.
        expected: String,
    },
    /// Text that no vocabulary can be learnt from.
    #[error("the text of {dataset} cannot be cut into tokens: {reason}")]
    Tokens {
        /// The data set.
        dataset: &'static str,
        /// What went wrong.
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
        /// The data set.
        dataset: &'static str,
        /// The address.
        url: String,
        /// What went wrong.
        reason: String,
        /// Where the files would go.
        folder: PathBuf,
        /// All files of the data set.
        files: Vec<String>,
    },
}
