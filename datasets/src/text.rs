//! Plain text, byte by byte: Tiny Shakespeare (Karpathy, 2015), 1.1 MB, or any file.

use std::path::{Path, PathBuf};

use crate::DatasetError;
use crate::download::{Remote, cached};

/// Text split for training (the first nine tenths) and testing (the rest).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Bytes of the training text.
    pub train: Vec<u8>,
    /// Bytes of the test text.
    pub test: Vec<u8>,
}

const NAME: &str = "Tiny Shakespeare";
const FILE: &str = "input.txt";
const URL: &str =
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/";
const BYTES: u64 = 1_115_394;
const SHA256: &str = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed";

/// Loads a text: the file that `path` names, or `input.txt` in that folder or in its subfolder `tinyshakespeare`.
/// Without a path, loads Tiny Shakespeare from the system cache, downloading it first if needed. Both parts must have
/// at least `least` bytes.
///
/// # Errors
/// Returns an error that names the missing file, or if the text cannot be read or is too short.
pub fn load(path: Option<&Path>, least: usize) -> Result<Text, DatasetError> {
    let path = match path {
        Some(path) => local(path)?,
        None => downloaded()?,
    };
    let read = |source| DatasetError::Read { path: path.clone(), source };
    let mut train = std::fs::read(&path).map_err(read)?;
    let test = train.split_off(train.len() * 9 / 10);
    if train.len().min(test.len()) < least {
        let found = format!("{} bytes", train.len() + test.len());
        let expected = format!("at least {} bytes of text", 10 * least);
        return Err(DatasetError::Content { path, what: "its length", found, expected });
    }
    Ok(Text { train, test })
}

fn local(path: &Path) -> Result<PathBuf, DatasetError> {
    let candidates = [path.to_path_buf(), path.join(FILE), path.join("tinyshakespeare").join(FILE)];
    let found = match path.is_dir() {
        true => format!(
            "; looked there and in {}. --data-dir may name any text file too",
            path.join("tinyshakespeare").display()
        ),
        false => "; there is no such file or folder".into(),
    };
    candidates.into_iter().find(|path| path.is_file()).ok_or_else(|| DatasetError::Missing {
        dataset: NAME,
        files: vec![FILE.into()],
        folder: path.into(),
        found,
    })
}

fn downloaded() -> Result<PathBuf, DatasetError> {
    let remote = Remote { url: format!("{URL}{FILE}"), bytes: BYTES, sha256: SHA256 };
    cached(NAME, "tinyshakespeare", FILE, &remote)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_file_is_a_text_and_its_last_tenth_is_tested_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.md");
        std::fs::write(&path, "0123456789".repeat(10)).unwrap();
        let text = load(Some(&path), 10).unwrap();
        assert_eq!((text.train.len(), text.test.as_slice()), (90, b"0123456789".as_slice()));
        std::fs::create_dir(folder.path().join("tinyshakespeare")).unwrap();
        std::fs::rename(&path, folder.path().join("tinyshakespeare").join(FILE)).unwrap();
        assert_eq!(load(Some(folder.path()), 10).unwrap(), text);
        let error = load(Some(folder.path()), 11).unwrap_err().to_string();
        assert!(error.contains("is 100 bytes, expected at least 110 bytes"), "{error}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = load(Some(folder.path()), 1).unwrap_err().to_string();
        assert!(error.contains("needs input.txt in"), "{error}");
        let error = load(Some(Path::new("/no/such/file")), 1).unwrap_err().to_string();
        assert!(error.contains("no such file or folder"), "{error}");
    }
}
