//! Variables that Hugging Face's tools read, with the same meaning.

use std::path::PathBuf;

/// Returns the hub's cache on this machine: `HF_HUB_CACHE` (formerly `HUGGINGFACE_HUB_CACHE`), or `hub` in [`home`].
pub(super) fn cache() -> Option<PathBuf> {
    match variable("HF_HUB_CACHE").or_else(|| variable("HUGGINGFACE_HUB_CACHE")) {
        Some(cache) => Some(cache.into()),
        None => Some(home()?.join("hub")),
    }
}

/// Returns the folder of Hugging Face's tools: `HF_HOME`, or `huggingface` in `XDG_CACHE_HOME` or `~/.cache`.
fn home() -> Option<PathBuf> {
    if let Some(home) = variable("HF_HOME") {
        return Some(home.into());
    }
    let caches = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = caches.or_else(|| Some(std::env::home_dir()?.join(".cache")))?;
    Some(caches.join("huggingface"))
}

/// Returns `true` if `HF_HUB_OFFLINE` forbids downloads.
#[cfg(feature = "hub")]
pub(super) fn is_offline() -> bool {
    let value = variable("HF_HUB_OFFLINE").unwrap_or_default().to_ascii_lowercase();
    ["1", "on", "yes", "true"].contains(&value.as_str())
}

/// Returns the address of the hub, `HF_ENDPOINT` if it is set.
#[cfg(feature = "hub")]
pub(super) fn endpoint() -> String {
    let endpoint = variable("HF_ENDPOINT").unwrap_or("https://huggingface.co".into());
    endpoint.trim_end_matches('/').into()
}

/// Returns the token of a user who logged in: `HF_TOKEN`, or else the content of the file `HF_TOKEN_PATH`, or `token` in [`home`].
#[cfg(feature = "hub")]
pub(super) fn token() -> Option<String> {
    let read = || {
        let path = variable("HF_TOKEN_PATH").map(PathBuf::from);
        std::fs::read_to_string(path.or_else(|| Some(home()?.join("token")))?).ok()
    };
    let token = variable("HF_TOKEN").or_else(read)?;
    Some(token.trim().to_string()).filter(|token| !token.is_empty())
}

/// Returns a variable that is set to something.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
