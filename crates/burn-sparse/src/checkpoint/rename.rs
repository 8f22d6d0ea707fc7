use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use burn_sparse_pattern::format::FormatError;

use super::CheckpointError;

/// Renames a module of a foreign file: `net.0=fc1`. An empty new name, as in `head.scale=`, skips the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rename {
    from: String,
    to: String,
}

impl FromStr for Rename {
    type Err = CheckpointError;

    fn from_str(text: &str) -> Result<Self, CheckpointError> {
        match text.split_once('=') {
            Some((from, to)) if !from.is_empty() => Ok(Self { from: from.into(), to: to.into() }),
            _ => Err(CheckpointError::Rename {
                text: text.into(),
                reason: "expected FROM=TO, as in net.0=fc1".into(),
            }),
        }
    }
}

impl Rename {
    /// Returns the new name of a module or tensor that is, or is inside, `from`.
    fn apply(&self, name: &str) -> Option<String> {
        let rest = name.strip_prefix(&self.from)?;
        (rest.is_empty() || rest.starts_with('.'))
            .then(|| if self.to.is_empty() { String::new() } else { format!("{}{rest}", self.to) })
    }
}

/// Returns what a file holds by its name in the model.
pub(super) fn renamed<'a, T>(
    path: &Path,
    tensors: impl IntoIterator<Item = (&'a String, T)>,
    renames: &[Rename],
) -> Result<BTreeMap<String, T>, CheckpointError> {
    let mut found = BTreeMap::new();
    let mut used = vec![false; renames.len()];
    for (name, tensor) in tensors {
        let renamed = renames.iter().enumerate().find_map(|(at, r)| Some((at, r.apply(name)?)));
        let name = match renamed {
            Some((at, renamed)) => {
                used[at] = true;
                renamed
            }
            None => name.clone(),
        };
        if !name.is_empty() && found.insert(name.clone(), tensor).is_some() {
            let reason = "two tensors have this name once renamed".into();
            let source = FormatError::Tensor { name, reason };
            return Err(CheckpointError::Malformed { path: path.into(), source });
        }
    }
    match used.iter().position(|used| !used) {
        Some(at) => Err(CheckpointError::Rename {
            text: format!("{}={}", renames[at].from, renames[at].to),
            reason: format!(
                "{} has no tensor under {}, or an earlier rename matched it",
                path.display(),
                renames[at].from
            ),
        }),
        None => Ok(found),
    }
}
