use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn_sparse::pattern::format::Source;
use serde_json::Value;

use super::PretrainedError;

/// Files of a folder, on disk or in memory.
#[derive(Debug, Clone)]
pub(super) struct Files {
    /// Folder on disk; in memory, its name in errors.
    folder: PathBuf,
    memory: Option<BTreeMap<String, Arc<[u8]>>>,
}

/// File of a folder, with random access.
pub(super) enum OpenFile {
    Disk(File),
    Memory(Arc<[u8]>),
}

impl Files {
    pub(super) fn on_disk(folder: PathBuf) -> Self {
        Self { folder, memory: None }
    }

    pub(super) fn in_memory(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let files = files.into_iter().map(|(name, bytes)| (name, bytes.into()));
        Self { folder: PathBuf::from("memory"), memory: Some(files.collect()) }
    }

    /// Returns the folder; in memory, its name in errors.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a file; in memory, its name in errors.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// Returns `true` if the file exists.
    pub(super) fn has(&self, file: &str) -> bool {
        match &self.memory {
            None => self.path(file).is_file(),
            Some(files) => files.contains_key(file),
        }
    }

    /// Returns a file's bytes.
    pub(super) fn read(&self, file: &str) -> Result<Vec<u8>, PretrainedError> {
        match self.open(file)? {
            OpenFile::Memory(bytes) => Ok(bytes.to_vec()),
            OpenFile::Disk(mut opened) => {
                let mut bytes = Vec::new();
                opened.read_to_end(&mut bytes).map_err(|source| self.unreadable(file, source))?;
                Ok(bytes)
            }
        }
    }

    /// Reads a JSON file; `Null` if there is none.
    pub(super) fn json(&self, file: &str) -> Result<Value, PretrainedError> {
        if !self.has(file) {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.read(file)?)
            .map_err(|error| self.malformed(file, error.to_string()))
    }

    /// Returns the error for a malformed file.
    pub(super) fn malformed(&self, file: &str, reason: String) -> PretrainedError {
        PretrainedError::Malformed { path: self.path(file), reason }
    }

    /// Opens a file.
    pub(super) fn open(&self, file: &str) -> Result<OpenFile, PretrainedError> {
        let opened = match &self.memory {
            None => File::open(self.path(file)).map(OpenFile::Disk),
            Some(files) => {
                let bytes = files.get(file).ok_or_else(|| io::ErrorKind::NotFound.into());
                bytes.cloned().map(OpenFile::Memory)
            }
        };
        opened.map_err(|source| self.unreadable(file, source))
    }

    fn unreadable(&self, file: &str, source: io::Error) -> PretrainedError {
        PretrainedError::Read { path: self.path(file), source }
    }
}

impl Source for OpenFile {
    fn size(&self) -> io::Result<u64> {
        match self {
            Self::Disk(file) => file.size(),
            Self::Memory(bytes) => (&bytes[..]).size(),
        }
    }

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Disk(file) => file.read_exact_at(into, offset),
            Self::Memory(bytes) => (&bytes[..]).read_exact_at(into, offset),
        }
    }
}
