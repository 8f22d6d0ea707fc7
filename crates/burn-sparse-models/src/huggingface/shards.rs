use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use burn_sparse::pattern::format::{FloatType, Safetensors, weight_map};
use safetensors::tensor::TensorInfo;

use super::files::{Files, OpenFile};
use super::{Architecture, PretrainedError};

/// Tensors of one file or of several shards, read one at a time.
pub(super) struct Shards {
    shards: Vec<Shard>,
    /// Shard of every tensor, and the tensor's index in it.
    tensors: BTreeMap<String, (usize, usize)>,
}

struct Shard {
    path: PathBuf,
    file: Safetensors<OpenFile>,
}

pub(super) const SINGLE: &str = "model.safetensors";
pub(super) const INDEX: &str = "model.safetensors.index.json";

impl Shards {
    /// Opens `model.safetensors`, or the shards that `model.safetensors.index.json` names.
    pub(super) fn open(files: &Files) -> Result<Self, PretrainedError> {
        if files.has(SINGLE) {
            let shard = Shard::open(files, SINGLE)?;
            let places = shard.places().into_iter();
            let tensors = places.map(|(name, at)| (name, (0, at))).collect();
            return Ok(Self { shards: vec![shard], tensors });
        }
        match shard_names(files)? {
            Some(weight_map) => Self::indexed(files, weight_map),
            None => Err(PretrainedError::Missing {
                folder: files.folder().into(),
                file: format!("{SINGLE} or {INDEX}"),
            }),
        }
    }

    fn indexed(
        files: &Files,
        weight_map: BTreeMap<String, String>,
    ) -> Result<Self, PretrainedError> {
        let malformed = |reason| PretrainedError::Malformed { path: files.path(INDEX), reason };
        let names: BTreeSet<&String> = weight_map.values().collect();
        let mut shards = Vec::new();
        let mut places = BTreeMap::new();
        for file in names {
            if !files.has(file) {
                return Err(malformed(format!("names the shard {file}, which is not there")));
            }
            let shard = Shard::open(files, file)?;
            places.insert(file.clone(), (shards.len(), shard.places()));
            shards.push(shard);
        }
        let mut tensors = BTreeMap::new();
        for (name, file) in weight_map {
            let (shard, places) = &places[&file];
            let Some(&at) = places.get(&name) else {
                return Err(malformed(format!("places {name} in {file}, which does not have it")));
            };
            tensors.insert(name, (*shard, at));
        }
        Ok(Self { shards, tensors })
    }

    /// Returns the names of all float tensors.
    pub(super) fn floats(&self) -> BTreeSet<String> {
        let floats = self.tensors.iter().filter(|(_, tensor)| {
            let (_, info) = self.find(tensor);
            FloatType::of(info.dtype).is_some()
        });
        floats.map(|(name, _)| name.clone()).collect()
    }

    /// Gives tensors the names that Hugging Face's tools write today.
    pub(super) fn rename(&mut self, architecture: Architecture) {
        let has = |name: &str| self.tensors.contains_key(name);
        let prefixed = has("bert.embeddings.word_embeddings.weight");
        let bare = has("embed_tokens.weight");
        let renamed = |name: String| match architecture {
            Architecture::Bert => of_bert(&name, prefixed),
            Architecture::Llama if bare && !name.starts_with("lm_head.") => format!("model.{name}"),
            Architecture::Llama => name,
        };
        let tensors = std::mem::take(&mut self.tensors);
        self.tensors = tensors.into_iter().map(|(name, at)| (renamed(name), at)).collect();
    }

    /// Returns what is wrong with a tensor that is to have floats of this shape.
    pub(super) fn problem(&self, name: &str, shape: &[usize]) -> Option<String> {
        let Some(tensor) = self.tensors.get(name) else {
            return Some(format!("the files lack {name}"));
        };
        let (_, info) = self.find(tensor);
        if info.shape != shape {
            return Some(format!("{name} is {:?} in the files, expected {shape:?}", info.shape));
        }
        FloatType::of(info.dtype).is_none().then(|| {
            format!("{name} has values of {:?} in the files, expected F32, F16 or BF16", info.dtype)
        })
    }

    /// Reads a tensor as f32, after [`Self::problem`] found none.
    pub(super) fn read(&self, name: &str) -> Result<Vec<f32>, PretrainedError> {
        let found = self.tensors.get(name).map(|tensor| self.find(tensor));
        let found = found.and_then(|(shard, info)| Some((shard, info, FloatType::of(info.dtype)?)));
        let (shard, info, float) = found.ok_or_else(|| {
            PretrainedError::Input(format!("there are no floats of the name {name}"))
        })?;
        let read = |source| PretrainedError::Read { path: shard.path.clone(), source };
        shard.file.floats(info, float).map_err(read)
    }

    fn find(&self, &(shard, at): &(usize, usize)) -> (&Shard, &TensorInfo) {
        let shard = &self.shards[shard];
        (shard, &shard.file.tensors()[at].1)
    }
}

/// Returns today's name of a tensor of BERT: checkpoints with a head have a prefix, and those converted from TensorFlow call a
/// norm's weight and bias gamma and beta.
fn of_bert(name: &str, prefixed: bool) -> String {
    let name = match name.strip_prefix("bert.") {
        Some(inner) if prefixed => inner,
        _ => name,
    };
    for (old, new) in
        [(".LayerNorm.gamma", ".LayerNorm.weight"), (".LayerNorm.beta", ".LayerNorm.bias")]
    {
        if let Some(module) = name.strip_suffix(old) {
            return format!("{module}{new}");
        }
    }
    name.into()
}

/// Returns the shard of every tensor according to the folder's index; `None` if there is no index.
pub(super) fn shard_names(
    files: &Files,
) -> Result<Option<BTreeMap<String, String>>, PretrainedError> {
    if !files.has(INDEX) {
        return Ok(None);
    }
    weight_map(&files.read(INDEX)?).map(Some).map_err(|error| PretrainedError::Malformed {
        path: files.path(INDEX),
        reason: error.to_string(),
    })
}

impl Shard {
    fn open(files: &Files, file: &str) -> Result<Self, PretrainedError> {
        let path = files.path(file);
        let file = Safetensors::open(files.open(file)?).map_err(|error| {
            let reason = format!("not a complete safetensors file: {error}");
            PretrainedError::Malformed { path: path.clone(), reason }
        })?;
        Ok(Self { path, file })
    }

    /// Returns the index of every tensor in the file.
    fn places(&self) -> BTreeMap<String, usize> {
        self.file.tensors().iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect()
    }
}
