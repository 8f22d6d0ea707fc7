//! Models fetched from the Hugging Face hub by their names, into the hub's cache on this machine.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hf_hub::api::Progress;
use hf_hub::api::sync::{ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use sha2::{Digest, Sha256};

use super::environment::token;
use super::file_names::{CONFIG, COPIED, TOKENIZER, known_missing};
use super::files::Files;
use super::shards::{INDEX, SINGLE, shard_names};
use super::{Folder, ModelConfig, PretrainedError};

/// Number of times that an interrupted download resumes where it stopped.
const RETRIES: usize = 2;

/// Fetches the files of a model that a [`Folder`](super::Folder) reads, and returns their folder in the cache. The
/// weights come last: a model that is not supported is refused before they are fetched. The cache records the
/// revision as the main one only when all files are there.
pub(super) fn fetch(name: &str, cache: &Path, endpoint: &str) -> Result<PathBuf, PretrainedError> {
    let failed = |reason: String| PretrainedError::Download { name: name.into(), reason };
    let text = |error: io::Error| failed(error.to_string());
    let repository = cache.join(Repo::model(name.into()).folder_name());
    fs::create_dir_all(&repository).map_err(text)?;
    // If two processes fetch a model at once, the second waits and then finds it. Where there are no locks, each file's own lock
    // decides.
    let lock = fs::File::create(repository.join(".burn-sparse.lock")).map_err(text)?;
    let _ = lock.lock();
    let main = Revision::main(name, cache, endpoint).map_err(failed)?;
    for file in [CONFIG, TOKENIZER] {
        main.require(file).map_err(failed)?;
    }
    let config = main.get(CONFIG).map_err(failed)?;
    let folder = config.parent().unwrap_or(cache).to_path_buf();
    let files = Files::on_disk(folder.clone());
    ModelConfig::parse(&config, &files.read(CONFIG)?)?;
    for file in COPIED {
        if main.names.contains(file) {
            main.get(file).map_err(failed)?;
        }
    }
    // Refuses modules and poolings that are not supported.
    Folder::open(&folder)?;
    if main.names.contains(SINGLE) {
        main.get(SINGLE).map_err(failed)?;
    } else {
        let shards = shard_names(&files)
            .map_err(|error| failed(format!("its {INDEX} is malformed: {error}")))?
            .ok_or_else(|| failed(format!("it has neither {SINGLE} nor {INDEX}")))?;
        for shard in BTreeSet::from_iter(shards.into_values()) {
            main.require(&shard).map_err(failed)?;
            main.get(&shard).map_err(failed)?;
        }
    }
    for file in COPIED.into_iter().filter(|&file| !main.names.contains(file)) {
        if let Some(mark) = known_missing(&folder, file) {
            fs::create_dir_all(mark.parent().unwrap_or(cache)).map_err(text)?;
            fs::write(mark, "").map_err(text)?;
        }
    }
    fs::write(repository.join("refs/main"), &main.commit).map_err(text)?;
    Ok(folder)
}

/// Files of a revision of a model on the hub.
struct Revision {
    commit: String,
    names: BTreeSet<String>,
    remote: ApiRepo,
    cached: CacheRepo,
}

impl Revision {
    /// Returns the main revision by its commit, so that all files come from the same one.
    fn main(name: &str, cache: &Path, endpoint: &str) -> Result<Self, String> {
        let cache = Cache::new(cache.into());
        let api = ApiBuilder::from_cache(cache.clone());
        let api = api.with_endpoint(endpoint.into()).with_progress(false).with_retries(RETRIES);
        let api = match token() {
            Some(token) => api.with_token(Some(token)),
            None => api,
        };
        let api = api.build().map_err(reason)?;
        let info = api.model(name.into()).info().map_err(reason)?;
        let repo = Repo::with_revision(name.into(), RepoType::Model, info.sha.clone());
        Ok(Self {
            commit: info.sha,
            names: info.siblings.into_iter().map(|file| file.rfilename).collect(),
            remote: api.repo(repo.clone()),
            cached: cache.repo(repo),
        })
    }

    fn require(&self, file: &str) -> Result<(), String> {
        self.names.contains(file).then_some(()).ok_or_else(|| format!("it has no {file}"))
    }

    /// Returns the path of a file in the cache, fetching it first if it is not there.
    fn get(&self, file: &str) -> Result<PathBuf, String> {
        if let Some(path) = self.cached.get(file) {
            return Ok(path);
        }
        let fetched = self.remote.download_with_progress(file, Tenths::default());
        let path = fetched.map_err(|error| format!("{file}: {}", reason(error)))?;
        verify(&path).map_err(|reason| format!("{file}: {reason}"))?;
        Ok(path)
    }
}

/// Returns the cause without the prefix that our message already states.
fn reason(error: ApiError) -> String {
    error.to_string().replace("request error: ", "")
}

/// Compares a large file with its SHA-256, which is its name in the cache; removes it if they differ.
fn verify(path: &Path) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let blob = path.canonicalize().map_err(text)?;
    let expected = blob.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if expected.len() != 64 {
        // Small files are named by a Git hash, and without symbolic links files keep their own names.
        return Ok(());
    }
    let (mut file, mut hash) = (fs::File::open(&blob).map_err(text)?, Sha256::new());
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece).map_err(text)? {
            0 => break,
            bytes => hash.update(&piece[..bytes]),
        }
    }
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found == expected {
        return Ok(());
    }
    let reason = format!("its SHA-256 is {found}, expected {expected}");
    for path in [path, &blob] {
        fs::remove_file(path).map_err(text)?;
    }
    Err(reason)
}

/// Logs every tenth of a download.
#[derive(Default)]
struct Tenths {
    bytes: usize,
    there: usize,
    logged: usize,
}

impl Progress for Tenths {
    fn init(&mut self, bytes: usize, file: &str) {
        // Called again when a download resumes.
        if self.bytes == 0 {
            tracing::info!(file, bytes, "downloading");
        }
        (self.bytes, self.there) = (bytes, 0);
    }

    fn update(&mut self, bytes: usize) {
        self.there += bytes;
        let tenths = 10 * self.there / self.bytes.max(1);
        if tenths > self.logged && self.bytes > 10_000_000 {
            tracing::info!("{} % of {} MB", 10 * tenths, self.bytes / 1_000_000);
        }
        self.logged = self.logged.max(tenths);
    }

    fn finish(&mut self) {}
}

#[cfg(test)]
mod tests;
