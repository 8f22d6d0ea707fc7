use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use burn_sparse_pattern::format::{FloatType, FormatError, Safetensors, View, weight_map};
use burn_sparse_pattern::{Axes, Distribution};
use globset::{Glob, GlobMatcher};
use safetensors::tensor::TensorInfo;

use super::tensor::{histogram, view};
use super::{OneShot, OneShotError};
use crate::params::listed;

/// Tensors to prune: a safetensors file, or the shards that an index names.
pub(super) struct Input {
    pub(super) path: PathBuf,
    pub(super) shards: Vec<Shard>,
    /// The bytes of the index; `None` for a single file.
    pub(super) index: Option<Vec<u8>>,
}

/// A safetensors file.
pub(super) struct Shard {
    pub(super) path: PathBuf,
    pub(super) file: Safetensors<File>,
}

/// Treatment of a tensor.
pub(super) enum Treatment {
    /// It is not selected, or cannot be pruned.
    Copied,
    /// It is selected, but its share of the sparsity leaves it dense.
    Untouched(View),
    /// It is pruned to this sparsity.
    Pruned(View, f64),
}

impl Input {
    pub(super) fn open(path: &Path) -> Result<Self, OneShotError> {
        if path.extension().is_none_or(|extension| extension != "json") {
            let shards = vec![Shard::open(path.into())?];
            return Ok(Self { path: path.into(), shards, index: None });
        }
        let read = |source| OneShotError::Read { path: path.into(), source };
        let malformed = |reason: String| OneShotError::Index { path: path.into(), reason };
        let bytes = std::fs::read(path).map_err(read)?;
        let map = weight_map(&bytes).map_err(|error| malformed(error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let files: BTreeSet<&String> = map.values().collect();
        let mut shards = Vec::new();
        let mut seen = BTreeSet::new();
        for name in files {
            let shard = Shard::open(folder.join(name))?;
            for (tensor, _) in shard.file.tensors() {
                if map.get(tensor) != Some(name) || !seen.insert(tensor.clone()) {
                    return Err(malformed(format!(
                        "{name} contains {tensor}, which the index does not list there"
                    )));
                }
            }
            shards.push(shard);
        }
        match map.keys().find(|name| !seen.contains(*name)) {
            Some(name) => Err(malformed(format!("places {name} in a shard that does not have it"))),
            None => Ok(Self { path: path.into(), shards, index: Some(bytes) }),
        }
    }

    fn tensors(&self) -> impl Iterator<Item = (&Shard, &String, &TensorInfo)> {
        self.shards.iter().flat_map(|shard| {
            shard.file.tensors().iter().map(move |(name, info)| (shard, name, info))
        })
    }

    /// Decides what is done to every tensor, in the order of the shards.
    pub(super) fn treatments(&self, task: &OneShot) -> Result<Vec<Treatment>, OneShotError> {
        let globs = globs(&task.include)?;
        let included = |name: &str| globs.iter().any(|glob| glob.is_match(name));
        let views: Vec<Option<View>> = self
            .tensors()
            .map(|(_, name, info)| {
                FloatType::of(info.dtype)?;
                view(&info.shape, task.orientation).filter(|_| included(name))
            })
            .collect();
        if views.iter().all(Option::is_none) {
            let prunable = self.tensors().filter(|(_, _, info)| {
                FloatType::of(info.dtype).is_some() && matches!(info.shape.len(), 2 | 4)
            });
            let known: Vec<&str> = prunable.map(|(_, name, _)| name.as_str()).collect();
            let (path, include) = (self.path.clone(), task.include.clone());
            return Err(OneShotError::NoMatch { path, include, known: listed(&known) });
        }
        let mut sparsities = self.spread(&views, task)?.into_iter();
        let treatments = views.into_iter().map(|view| match view {
            None => Treatment::Copied,
            Some(view) => match sparsities.next() {
                Some(sparsity) if sparsity > 0.0 => Treatment::Pruned(view, sparsity),
                _ => Treatment::Untouched(view),
            },
        });
        Ok(treatments.collect())
    }

    /// Returns the sparsity of every selected tensor.
    fn spread(&self, views: &[Option<View>], task: &OneShot) -> Result<Vec<f64>, OneShotError> {
        let selected: Vec<&View> = views.iter().flatten().collect();
        let shares = match task.distribution {
            Distribution::Uniform => return Ok(vec![task.sparsity; selected.len()]),
            Distribution::Global => {
                let mut histograms = Vec::with_capacity(selected.len());
                for ((shard, _, info), view) in self.tensors().zip(views) {
                    if let (Some(_), Some(float)) = (view, FloatType::of(info.dtype)) {
                        let weights = shard.file.floats(info, float);
                        histograms.push(histogram(weights.map_err(|error| shard.fail(error))?));
                    }
                }
                Distribution::by_score(&histograms, task.sparsity, task.cap)
            }
            by_shape => {
                let layers: Vec<Axes> = selected.iter().map(|view| view.axes()).collect();
                by_shape.by_shape(&layers, task.sparsity)
            }
        };
        let nearest = selected.iter().zip(shares).map(|(view, share)| {
            // A pattern that does not fit this shape is reported when the tensor is pruned.
            task.pattern.nearest_sparsity(view.rows(), view.cols(), share).unwrap_or(share)
        });
        Ok(nearest.collect())
    }
}

impl Shard {
    fn open(path: PathBuf) -> Result<Self, OneShotError> {
        let fail = |source| OneShotError::Read { path: path.clone(), source };
        let file = File::open(&path).map_err(fail)?;
        let file = Safetensors::open(file).map_err(|error| match error {
            FormatError::System(source) => fail(source),
            FormatError::Safetensors { reason } => {
                OneShotError::Safetensors { path: path.clone(), reason }
            }
            other => OneShotError::Safetensors { path: path.clone(), reason: other.to_string() },
        })?;
        match file.metadata().contains_key("burn-sparse.tensors") {
            true => Err(OneShotError::Checkpoint { path }),
            false => Ok(Self { path, file }),
        }
    }

    pub(super) fn fail(&self, source: std::io::Error) -> OneShotError {
        OneShotError::Read { path: self.path.clone(), source }
    }
}

fn globs(include: &[String]) -> Result<Vec<GlobMatcher>, OneShotError> {
    let one = |text: &String| match Glob::new(text) {
        Ok(glob) => Ok(glob.compile_matcher()),
        Err(error) => Err(OneShotError::Glob { text: text.clone(), reason: error.to_string() }),
    };
    include.iter().map(one).collect()
}
