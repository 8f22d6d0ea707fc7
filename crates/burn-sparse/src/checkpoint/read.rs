use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use safetensors::SafeTensors;

use super::arrays::{Array, Fault, read as read_arrays};
use super::write::{PackedInfo, TensorInfo, VERSION};
use super::{Checkpoint, CheckpointError, Entry, PackedEntry, Provenance};
use crate::modules::View;
use crate::recipe::Recipe;

impl Checkpoint {
    /// Reads a file and checks everything in it: lengths, ids, orders, patterns, mask hashes.
    ///
    /// # Errors
    /// Names the file, the tensor, what was expected and what was found.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path)
            .map_err(|source| CheckpointError::Read { path: path.into(), source })?;
        File::new(path, &bytes)?.read()
    }
}

/// Bytes of a mask for every byte of its file, at most: one kept f32 in 2048 weights.
const MASK_PER_FILE: usize = 64;

struct File<'a> {
    path: &'a Path,
    /// Bytes of the file.
    length: usize,
    tensors: SafeTensors<'a>,
    metadata: HashMap<String, String>,
}

impl<'a> File<'a> {
    fn new(path: &'a Path, bytes: &'a [u8]) -> Result<Self, CheckpointError> {
        let fail = |error: safetensors::SafeTensorError| CheckpointError::Safetensors {
            path: path.into(),
            reason: error.to_string(),
        };
        let tensors = SafeTensors::deserialize(bytes).map_err(fail)?;
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(fail)?;
        let metadata = header.metadata().clone().unwrap_or_default();
        Ok(Self { path, length: bytes.len(), tensors, metadata })
    }

    fn read(&self) -> Result<Checkpoint, CheckpointError> {
        let version = self.metadata.get("burn-sparse.version");
        if version.map(String::as_str) != Some(VERSION) {
            let found = version.map_or("missing".into(), |version| format!("`{version}`"));
            return Err(self.wrong("burn-sparse.version", found, format!("`{VERSION}`")));
        }
        let infos: BTreeMap<String, TensorInfo> = self
            .json("burn-sparse.tensors")?
            .ok_or_else(|| self.wrong("burn-sparse.tensors", "missing".into(), "a map".into()))?;
        let mut entries = BTreeMap::new();
        for (name, info) in infos {
            let entry = match info.packed {
                None => self.dense(&name, info.layer, info.shape.clone())?,
                Some(packed) => Entry::Packed(self.packed(&name, info.layer, packed)?),
            };
            if entry.shape() != info.shape && matches!(entry, Entry::Packed(_)) {
                let reason =
                    format!("a view of {:?}, the layer stores {:?}", entry.shape(), info.shape);
                return Err(self.tensor(&name, reason));
            }
            entries.insert(name, entry);
        }
        let recipe = match self.metadata.get("burn-sparse.recipe") {
            None => None,
            Some(text) => Some(text.parse::<Recipe>().map_err(|error| {
                self.wrong("burn-sparse.recipe", error.to_string(), "a recipe".into())
            })?),
        };
        let plan = self.json("burn-sparse.plan")?;
        let results = self.json("burn-sparse.results")?.unwrap_or_default();
        Ok(Checkpoint { entries, provenance: Provenance { recipe, plan, results } })
    }

    fn dense(
        &self,
        name: &str,
        layer: String,
        shape: Vec<usize>,
    ) -> Result<Entry, CheckpointError> {
        let array = self.array(name).ok_or_else(|| self.tensor(name, "is missing".into()))?;
        if array.shape != shape {
            let reason = format!("shape is {:?}, expected {shape:?}", array.shape);
            return Err(self.tensor(name, reason));
        }
        let values = array.to_floats().map_err(|reason| self.tensor(name, reason))?;
        Ok(Entry::Dense { layer, shape, values })
    }

    fn packed(
        &self,
        name: &str,
        layer: String,
        info: PackedInfo,
    ) -> Result<PackedEntry, CheckpointError> {
        let PackedInfo { pattern, view, mask_hash, kept, .. } = info;
        self.refuse_implausible(name, &view)?;
        let fail = |source| CheckpointError::Pattern { name: name.into(), source };
        let take = |suffix: &str| self.array(&format!("{name}.{suffix}"));
        let packed = read_arrays(&view, &pattern, kept, take).map_err(|fault| match fault {
            Fault::Array(suffix, reason) => self.tensor(&format!("{name}.{suffix}"), reason),
            Fault::Pattern(source) => fail(source),
        })?;
        let mask = packed.mask();
        pattern.check(&mask, packed.row_order()).map_err(fail)?;
        let found = mask.hash();
        if found != mask_hash {
            return Err(CheckpointError::Hash { name: name.into(), expected: mask_hash, found });
        }
        Ok(PackedEntry { layer, view, pattern, packed })
    }

    /// A mask takes a bit for every weight that the metadata claims, kept or not.
    fn refuse_implausible(&self, name: &str, view: &View) -> Result<(), CheckpointError> {
        // Rows of a mask are whole words.
        let bits =
            view.cols().checked_next_multiple_of(64).and_then(|c| c.checked_mul(view.rows()));
        let most = self.length.saturating_mul(8 * MASK_PER_FILE);
        match bits {
            Some(bits) if bits <= most => Ok(()),
            _ => {
                let (rows, cols) = (view.rows(), view.cols());
                let reason = format!(
                    "claims {rows}x{cols} weights, more than a file of {} bytes can mean",
                    self.length
                );
                Err(self.tensor(name, reason))
            }
        }
    }

    fn array(&self, name: &str) -> Option<Array> {
        let view = self.tensors.tensor(name).ok()?;
        Some(Array {
            dtype: view.dtype(),
            shape: view.shape().to_vec(),
            bytes: view.data().to_vec(),
        })
    }

    fn json<T: serde::de::DeserializeOwned>(
        &self,
        key: &str,
    ) -> Result<Option<T>, CheckpointError> {
        let Some(text) = self.metadata.get(key) else { return Ok(None) };
        let parsed = serde_json::from_str(text);
        parsed.map(Some).map_err(|error| self.wrong(key, error.to_string(), "valid JSON".into()))
    }

    fn wrong(&self, key: &str, found: String, expected: String) -> CheckpointError {
        CheckpointError::Metadata { path: self.path.into(), key: key.into(), found, expected }
    }

    fn tensor(&self, name: &str, reason: String) -> CheckpointError {
        CheckpointError::Tensor { path: self.path.into(), name: name.into(), reason }
    }
}
