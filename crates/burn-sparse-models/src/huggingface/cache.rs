use std::path::{Path, PathBuf};

use super::{Folder, PretrainedError};

impl Folder {
    /// Opens a folder, or the model of this name on the Hugging Face hub (`owner/model`) in the hub's cache on this machine,
    /// where `hf download owner/model` puts it. Nothing is downloaded.
    ///
    /// # Errors
    /// When there is neither, or as [`Self::open`].
    pub fn find(name: impl AsRef<Path>) -> Result<Self, PretrainedError> {
        let name = name.as_ref();
        if name.exists() {
            return Self::open(name);
        }
        match cache().and_then(|cache| snapshot(&cache, name.to_str()?)) {
            Some(path) => Self::open(path),
            None => Err(PretrainedError::NotFound { name: name.into() }),
        }
    }
}

/// Returns the hub's cache: `HF_HUB_CACHE`, `HF_HOME/hub`, or `~/.cache/huggingface/hub`, in this order.
fn cache() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(cache) = variable("HF_HUB_CACHE") {
        return Some(cache.into());
    }
    let home = match variable("HF_HOME") {
        Some(home) => PathBuf::from(home),
        None => std::env::home_dir()?.join(".cache/huggingface"),
    };
    Some(home.join("hub"))
}

/// Returns the folder of a model's main revision in the cache.
fn snapshot(cache: &Path, name: &str) -> Option<PathBuf> {
    let (owner, model) = name.split_once('/').filter(|(_, model)| !model.contains('/'))?;
    let repository = cache.join(format!("models--{owner}--{model}"));
    let revision = std::fs::read_to_string(repository.join("refs/main")).ok()?;
    let snapshot = repository.join("snapshots").join(revision.trim());
    snapshot.is_dir().then_some(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_revision_of_a_model_is_found_in_the_cache_of_the_hub() {
        let cache = tempfile::tempdir().unwrap();
        let repository = cache.path().join("models--owner--model");
        let expected = repository.join("snapshots/abc123");
        std::fs::create_dir_all(repository.join("refs")).unwrap();
        std::fs::create_dir_all(&expected).unwrap();
        std::fs::write(repository.join("refs/main"), "abc123\n").unwrap();
        assert_eq!(snapshot(cache.path(), "owner/model"), Some(expected));
        for other in ["owner/other", "model", "owner/model/part", ""] {
            assert_eq!(snapshot(cache.path(), other), None, "{other}");
        }
    }

    #[test]
    fn a_model_that_is_nowhere_is_named_with_where_to_put_it() {
        let error = Folder::find("no-such-owner/no-such-model").unwrap_err().to_string();
        assert!(error.contains("no-such-owner/no-such-model"), "{error}");
        assert!(error.contains("hf download"), "{error}");
    }
}
