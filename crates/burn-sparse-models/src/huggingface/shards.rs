use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};

use super::PretrainedError;

/// Tensors of one file or of several shards, memory-mapped.
pub(super) struct Shards {
    shards: Vec<Shard>,
    /// Shard of every tensor.
    tensors: BTreeMap<String, usize>,
}

struct Shard {
    path: PathBuf,
    bytes: Mmap,
}

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

impl Shards {
    /// Opens `model.safetensors`, or the shards that `model.safetensors.index.json` names.
    pub(super) fn open(folder: &Path) -> Result<Self, PretrainedError> {
        let single = folder.join(SINGLE);
        if single.exists() {
            let shard = Shard::open(single)?;
            let tensors = shard.names()?.into_iter().map(|name| (name, 0)).collect();
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
        let read = |source| PretrainedError::Read { path: index.into(), source };
        let malformed = |reason: String| PretrainedError::Malformed { path: index.into(), reason };
        let text = std::fs::read_to_string(index).map_err(read)?;
        #[derive(serde::Deserialize)]
        struct Index {
            weight_map: BTreeMap<String, String>,
        }
        let Index { weight_map } =
            serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        let files: BTreeSet<&String> = weight_map.values().collect();
        let mut shards = Vec::new();
        let mut places = BTreeMap::new();
        for file in files {
            // A name with a path could reach outside the folder.
            if Path::new(file).file_name() != Some(file.as_ref()) {
                return Err(malformed(format!("names the shard {file}, expected a file name")));
            }
            let path = folder.join(file);
            if !path.exists() {
                return Err(malformed(format!("names the shard {file}, which is not there")));
            }
            let shard = Shard::open(path)?;
            let names: BTreeSet<String> = shard.names()?.into_iter().collect();
            places.insert(file.clone(), (shards.len(), names));
            shards.push(shard);
        }
        let mut tensors = BTreeMap::new();
        for (name, file) in weight_map {
            let (shard, names) = &places[&file];
            if !names.contains(&name) {
                return Err(malformed(format!("places {name} in {file}, which does not have it")));
            }
            tensors.insert(name, *shard);
        }
        Ok(Self { shards, tensors })
    }

    /// Returns the names of all float tensors.
    pub(super) fn floats(&self) -> Result<BTreeSet<String>, PretrainedError> {
        let mut names = BTreeSet::new();
        for (name, &shard) in &self.tensors {
            let shard = &self.shards[shard];
            if floating(shard.parsed()?.tensor(name).map_err(|e| shard.malformed(&e))?.dtype()) {
                names.insert(name.clone());
            }
        }
        Ok(names)
    }

    /// Reads a tensor as f32; `Ok(Err)` says what is wrong with it.
    pub(super) fn read(
        &self,
        name: &str,
        shape: &[usize],
    ) -> Result<Result<Vec<f32>, String>, PretrainedError> {
        let Some(&shard) = self.tensors.get(name) else {
            return Ok(Err(format!("the files lack {name}")));
        };
        let shard = &self.shards[shard];
        let parsed = shard.parsed()?;
        let tensor = parsed.tensor(name).map_err(|error| shard.malformed(&error))?;
        if tensor.shape() != shape || !floating(tensor.dtype()) {
            return Ok(Err(format!(
                "{name} is {:?} {:?} in the files, the model needs floats {shape:?}",
                tensor.dtype(),
                tensor.shape()
            )));
        }
        let bytes = tensor.data();
        Ok(Ok(match tensor.dtype() {
            Dtype::F32 => words(bytes, f32::from_le_bytes),
            Dtype::F16 => words(bytes, |word| f16::from_le_bytes(word).to_f32()),
            _ => words(bytes, |word| bf16::from_le_bytes(word).to_f32()),
        }))
    }
}

fn floating(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16)
}

fn words<const N: usize>(bytes: &[u8], float: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    bytes.as_chunks::<N>().0.iter().map(|word| float(*word)).collect()
}

impl Shard {
    fn open(path: PathBuf) -> Result<Self, PretrainedError> {
        let read = |source| PretrainedError::Read { path: path.clone(), source };
        let file = File::open(&path).map_err(read)?;
        // SAFETY: the map is only read; as everywhere that maps files, another process that truncates the file while
        // it is mapped would end this one.
        let bytes = unsafe { Mmap::map(&file) }.map_err(read)?;
        Ok(Self { path, bytes })
    }

    fn parsed(&self) -> Result<SafeTensors<'_>, PretrainedError> {
        SafeTensors::deserialize(&self.bytes).map_err(|error| self.malformed(&error))
    }

    fn names(&self) -> Result<Vec<String>, PretrainedError> {
        Ok(self.parsed()?.names().into_iter().map(String::from).collect())
    }

    fn malformed(&self, error: &safetensors::SafeTensorError) -> PretrainedError {
        let reason = format!("not a complete safetensors file: {error}");
        PretrainedError::Malformed { path: self.path.clone(), reason }
    }
}
