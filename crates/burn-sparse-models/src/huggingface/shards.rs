use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use burn_sparse::pattern::format::{FloatType, Safetensors};
use safetensors::tensor::TensorInfo;

use super::PretrainedError;

/// Tensors of one file or of several shards, read one at a time.
pub(super) struct Shards {
    shards: Vec<Shard>,
    /// Shard of every tensor, and its place there.
    tensors: BTreeMap<String, (usize, usize)>,
}

struct Shard {
    path: PathBuf,
    file: Safetensors<File>,
}

pub(super) const SINGLE: &str = "model.safetensors";
pub(super) const INDEX: &str = "model.safetensors.index.json";

impl Shards {
    /// Opens `model.safetensors`, or the shards that `model.safetensors.index.json` names.
    pub(super) fn open(folder: &Path) -> Result<Self, PretrainedError> {
        let single = folder.join(SINGLE);
        if single.exists() {
            let shard = Shard::open(single)?;
            let places = shard.places().into_iter();
            let tensors = places.map(|(name, at)| (name, (0, at))).collect();
            return Ok(Self { shards: vec![shard], tensors });
        }
        let index = folder.join(INDEX);
        if !index.exists() {
            let file = format!("{SINGLE} or {INDEX}");
            return Err(PretrainedError::Missing { folder: folder.into(), file });
        }
        Self::indexed(folder, &index)
    }

    fn indexed(folder: &Path, index: &Path) -> Result<Self, PretrainedError> {
        let malformed = |reason: String| PretrainedError::Malformed { path: index.into(), reason };
        let weight_map = read_index(index)?;
        let files: BTreeSet<&String> = weight_map.values().collect();
        let mut shards = Vec::new();
        let mut places = BTreeMap::new();
        for file in files {
            let path = folder.join(file);
            if !path.exists() {
                return Err(malformed(format!("names the shard {file}, which is not there")));
            }
            let shard = Shard::open(path)?;
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

    /// Reads a tensor as f32; `Ok(Err)` says what is wrong with it.
    pub(super) fn read(
        &self,
        name: &str,
        shape: &[usize],
    ) -> Result<Result<Vec<f32>, String>, PretrainedError> {
        let Some(tensor) = self.tensors.get(name) else {
            return Ok(Err(format!("the files lack {name}")));
        };
        let (shard, info) = self.find(tensor);
        let Some(float) = FloatType::of(info.dtype).filter(|_| info.shape == shape) else {
            return Ok(Err(format!(
                "{name} is {:?} {:?} in the files, the model needs floats {shape:?}",
                info.dtype, info.shape
            )));
        };
        let read = |source| PretrainedError::Read { path: shard.path.clone(), source };
        shard.file.floats(info, float).map(Ok).map_err(read)
    }

    fn find(&self, &(shard, at): &(usize, usize)) -> (&Shard, &TensorInfo) {
        let shard = &self.shards[shard];
        (shard, &shard.file.tensors()[at].1)
    }
}

/// Returns the shard of every tensor, by the folder's index; `None` if there is none.
pub(super) fn shard_names(
    folder: &Path,
) -> Result<Option<BTreeMap<String, String>>, PretrainedError> {
    let index = folder.join(INDEX);
    if index.exists() { read_index(&index).map(Some) } else { Ok(None) }
}

fn read_index(index: &Path) -> Result<BTreeMap<String, String>, PretrainedError> {
    let read = |source| PretrainedError::Read { path: index.into(), source };
    let text = std::fs::read_to_string(index).map_err(read)?;
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let malformed = |reason: String| PretrainedError::Malformed { path: index.into(), reason };
    let Index { weight_map } =
        serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
    // A name with a path could reach outside the folder, for reading and for writing.
    match weight_map.values().find(|file| Path::new(file).file_name() != Some(file.as_ref())) {
        Some(file) => Err(malformed(format!("names the shard {file}, expected a file name"))),
        None => Ok(weight_map),
    }
}

impl Shard {
    fn open(path: PathBuf) -> Result<Self, PretrainedError> {
        let read = |source| PretrainedError::Read { path: path.clone(), source };
        let file = File::open(&path).map_err(read)?;
        let file = Safetensors::open(file).map_err(|error| PretrainedError::Malformed {
            path: path.clone(),
            reason: format!("not a complete safetensors file: {error}"),
        })?;
        Ok(Self { path, file })
    }

    /// Returns the place of every tensor in the file.
    fn places(&self) -> BTreeMap<String, usize> {
        self.file.tensors().iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect()
    }
}
