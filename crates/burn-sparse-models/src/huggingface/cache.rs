use std::path::{Path, PathBuf};

#[cfg(feature = "hub")]
use super::environment;
use super::environment::cache;
use super::file_names::{CONFIG, MODULES, POOLING, TOKENIZER, TOKENIZER_CONFIG, known_missing};
use super::files::Files;
use super::sentence_modules::has_pooling;
use super::shards::{SINGLE, shard_names};
use super::{Folder, PretrainedError};

impl Folder {
    /// Opens a folder, or a Hugging Face hub model of this name (`owner/model`) in the hub's cache on this machine, where
    /// `hf download owner/model` puts it. With the feature `hub`, a model that is not there is downloaded first, unless
    /// `HF_HUB_OFFLINE` is set. `HF_TOKEN` and `HF_ENDPOINT` have the same meaning as in Hugging Face's tools.
    ///
    /// # Errors
    /// Returns an error when there is no such folder or model, and the same errors as [`Self::open`].
    pub fn find(name: impl AsRef<Path>) -> Result<Self, PretrainedError> {
        let path = name.as_ref();
        if path.exists() {
            return Self::open(path);
        }
        let missing = || PretrainedError::NotFound { name: path.into() };
        let (name, cache) = (path.to_str().ok_or_else(missing)?, cache().ok_or_else(missing)?);
        let cached = snapshot(&cache, name);
        let lacks = cached.as_deref().map(lacking).transpose()?.flatten();
        if let (Some(snapshot), None) = (&cached, &lacks) {
            return Self::open(snapshot);
        }
        #[cfg(feature = "hub")]
        if Self::is_name(path) && !environment::is_offline() {
            return Self::open(super::hub::fetch(name, &cache, &environment::endpoint())?);
        }
        Err(match lacks {
            Some(file) => PretrainedError::Incomplete { name: name.into(), file },
            None => missing(),
        })
    }

    /// Returns `true` if `path` may be the name of a model on the hub, `owner/model`, and is not a path: neither it nor `owner`
    /// exists, and it does not have the extension of a weights file.
    pub fn is_name(path: &Path) -> bool {
        let part = |part: &str| {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            part.bytes().all(known) && part.bytes().any(|byte| byte.is_ascii_alphanumeric())
        };
        let names = path.to_str().and_then(|name| name.split_once('/'));
        let is_file = path.extension().is_some_and(|extension| extension == "safetensors");
        !is_file
            && names.is_some_and(|(owner, model)| {
                part(owner) && part(model) && !Path::new(owner).exists()
            })
    }
}

/// Returns the folder of a model's main revision in the cache.
fn snapshot(cache: &Path, name: &str) -> Option<PathBuf> {
    let (owner, model) = name.split_once('/').filter(|(_, model)| !model.contains('/'))?;
    let repository = cache.join(format!("models--{owner}--{model}"));
    let revision = std::fs::read_to_string(repository.join("refs/main")).ok()?;
    let snapshot = repository.join("snapshots").join(revision.trim());
    snapshot.is_dir().then_some(snapshot)
}

/// Returns the first file that a snapshot lacks: the configurations, the tokenizer, weights, and what says how an encoder's outputs
/// become an embedding, unless the cache knows that the model has no such file. Other tools fetch only the files that they need, and
/// without these a model would read other tokens, or be taken for one with mean pooling.
fn lacking(snapshot: &Path) -> Result<Option<String>, PretrainedError> {
    let files = Files::on_disk(snapshot.into());
    let has = |file: &str| {
        files.has(file) || known_missing(snapshot, file).is_some_and(|mark| mark.exists())
    };
    let mut needed: Vec<String> = [CONFIG, TOKENIZER, TOKENIZER_CONFIG].map(String::from).into();
    if files.json(CONFIG)?["model_type"] == "bert" {
        needed.push(MODULES.into());
        needed.extend(has_pooling(&files)?.then(|| POOLING.into()));
    }
    if !files.has(SINGLE) {
        let shards = shard_names(&files)?.map(|shards| shards.into_values().collect());
        needed.extend(shards.unwrap_or_else(|| vec![SINGLE.to_string()]));
    }
    Ok(needed.into_iter().find(|file| !has(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoder_without_its_modules_is_complete_only_if_it_has_none() {
        let cache = tempfile::tempdir().unwrap();
        let snapshot = cache.path().join("models--owner--model/snapshots/abc123");
        std::fs::create_dir_all(&snapshot).unwrap();
        for (file, content) in [
            ("config.json", r#"{"model_type": "bert"}"#),
            ("tokenizer.json", "{}"),
            ("tokenizer_config.json", "{}"),
            ("model.safetensors", ""),
        ] {
            std::fs::write(snapshot.join(file), content).unwrap();
        }
        let lacks = || lacking(&snapshot).unwrap();
        assert_eq!(lacks().as_deref(), Some("modules.json"));
        let mark = known_missing(&snapshot, "modules.json").unwrap();
        assert_eq!(mark, cache.path().join("models--owner--model/.no_exist/abc123/modules.json"));
        std::fs::create_dir_all(mark.parent().unwrap()).unwrap();
        std::fs::write(&mark, "").unwrap();
        assert_eq!(lacks(), None);
        std::fs::remove_file(mark).unwrap();
        std::fs::write(snapshot.join("modules.json"), "[]").unwrap();
        assert_eq!(lacks(), None);
        let pools = r#"[{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]"#;
        std::fs::write(snapshot.join("modules.json"), pools).unwrap();
        assert_eq!(lacks().as_deref(), Some("1_Pooling/config.json"));
    }

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
    fn a_snapshot_that_another_tool_fetched_in_part_is_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        let add = |file: &str, content: &str| {
            std::fs::write(folder.path().join(file), content).unwrap();
            lacking(folder.path()).unwrap().is_none()
        };
        assert!(!add("config.json", "{}") && !add("tokenizer.json", "{}"));
        assert!(!add("tokenizer_config.json", "{}"));
        assert!(!add("model.safetensors.index.json", r#"{"weight_map": {"a": "1", "b": "2"}}"#));
        assert!(!add("1", "") && add("2", ""));
        std::fs::remove_file(folder.path().join("1")).unwrap();
        assert_eq!(lacking(folder.path()).unwrap().as_deref(), Some("1"));
        assert!(add("model.safetensors", ""));
        // It may say that a text begins or ends with a token.
        std::fs::remove_file(folder.path().join("tokenizer_config.json")).unwrap();
        assert_eq!(lacking(folder.path()).unwrap().as_deref(), Some("tokenizer_config.json"));
    }

    #[test]
    fn a_folder_that_is_nowhere_is_named_with_where_to_put_it() {
        let error = Folder::find("no-such-folder").unwrap_err().to_string();
        assert!(error.contains("no-such-folder"), "{error}");
        assert!(error.contains("hf download"), "{error}");
    }

    #[test]
    fn a_name_is_an_owner_and_a_model_and_no_path() {
        for name in ["sentence-transformers/all-MiniLM-L6-v2", "Qwen/Qwen2.5-0.5B"] {
            assert!(Folder::is_name(name.as_ref()), "{name}");
        }
        // There is a folder `src` here.
        for path in [
            "src/lost",
            "model",
            "owner/model/part",
            "../model",
            "./model",
            "/model",
            "",
            "a b/c",
            "owner/m.safetensors",
        ] {
            assert!(!Folder::is_name(path.as_ref()), "{path}");
        }
    }
}
