use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use rayon::prelude::*;
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;

use super::info::{PackedInfo, ParameterInfo, TENSORS_KEY, VERSION, VERSION_KEY};
use super::layouts::{self, Arrays, IDS};
use super::unique::Unique;
use super::{Entry, FloatType, FormatError, PackedEntry, PackedFile, Safetensors, Source, View};
use crate::PatternError;

/// Bits of a mask for every byte of its file, at most: one kept f32 in 2048 weights. A mask is never in
/// memory as a whole, but hashing it takes time.
const BITS_PER_BYTE: u64 = 512;

impl PackedFile {
    /// Reads a file in pieces and checks everything in it: lengths, ids, orders, patterns, mask hashes.
    /// Takes no more memory than the file has bytes, twice that where values are of two bytes.
    ///
    /// # Errors
    /// Names the tensor, what was expected and what was found.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FormatError> {
        Self::read(File::open(path)?)
    }

    /// As [`Self::open`], from any source.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn read(source: impl Source) -> Result<Self, FormatError> {
        Reader { bytes: source.size()?, file: Safetensors::open(source)? }.read()
    }
}

struct Reader<S> {
    /// Bytes of the file.
    bytes: u64,
    file: Safetensors<S>,
}

impl<S: Source> Reader<S> {
    fn read(self) -> Result<PackedFile, FormatError> {
        let mut metadata = self.file.metadata().clone();
        let version = metadata.remove(VERSION_KEY);
        if version.as_deref() != Some(VERSION) {
            let found = version.map_or("missing".into(), |version| format!("`{version}`"));
            return Err(wrong(VERSION_KEY, found, format!("`{VERSION}`")));
        }
        let Some(text) = metadata.remove(TENSORS_KEY) else {
            return Err(wrong(TENSORS_KEY, "missing".into(), "a map".into()));
        };
        let infos: Unique<ParameterInfo> = serde_json::from_str(&text)
            .map_err(|error| wrong(TENSORS_KEY, error.to_string(), "valid JSON".into()))?;
        let tensors: BTreeMap<&str, &TensorInfo> =
            self.file.tensors().iter().map(|(name, info)| (name.as_str(), info)).collect();
        let read: Vec<Result<_, FormatError>> = infos
            .0
            .into_par_iter()
            .map(|(name, info)| {
                let mut tensors =
                    Tensors { file: &self.file, tensors: &tensors, name: &name, taken: Vec::new() };
                let entry = self.entry(&mut tensors, info)?;
                let taken = tensors.taken;
                Ok((name, entry, taken))
            })
            .collect();
        let (mut entries, mut unseen) = (BTreeMap::new(), BTreeSet::new());
        unseen.extend(tensors.keys().map(|name| name.to_string()));
        for read in read {
            let (name, entry, taken) = read?;
            for tensor in taken {
                if !unseen.remove(&tensor) {
                    return Err(FormatError::tensor(tensor, "belongs to two parameters"));
                }
            }
            entries.insert(name, entry);
        }
        match unseen.pop_first() {
            Some(name) => Err(FormatError::tensor(name, "belongs to no parameter")),
            None => Ok(PackedFile { entries, metadata }),
        }
    }

    fn entry(
        &self,
        tensors: &mut Tensors<'_, S>,
        info: ParameterInfo,
    ) -> Result<Entry, FormatError> {
        let ParameterInfo { layer, shape, packed } = info;
        let Some(packed) = packed else {
            let found = tensors.take("")?;
            if found.shape != shape {
                let reason = format!("shape is {:?}, expected {shape:?}", found.shape);
                return Err(FormatError::tensor(tensors.name, reason));
            }
            let (values, float) = tensors.floats(found, tensors.name)?;
            return Ok(Entry::Dense { layer, shape, values, float });
        };
        let entry = self.packed(tensors, layer, packed)?;
        let seen = entry.view.stored_shape();
        if seen != shape {
            let reason = format!("a view of {seen:?}, the layer stores {shape:?}");
            return Err(FormatError::tensor(tensors.name, reason));
        }
        Ok(Entry::Packed(entry))
    }

    fn packed(
        &self,
        tensors: &mut Tensors<'_, S>,
        layer: String,
        info: PackedInfo,
    ) -> Result<PackedEntry, FormatError> {
        let PackedInfo { pattern, view, mask_hash, kept, .. } = info;
        self.refuse_implausible(tensors.name, &view)?;
        let shape = (view.rows(), view.cols());
        let (packed, float) = layouts::packed(shape, &pattern, kept, tensors)?;
        let found = packed.mask_hash();
        if found != mask_hash {
            let (name, expected) = (tensors.name.into(), mask_hash);
            return Err(FormatError::Hash { name, expected, found });
        }
        Ok(PackedEntry { layer, view, pattern, packed, float })
    }

    /// Hashing a mask takes a bit for every weight that the metadata claims, kept or not.
    fn refuse_implausible(&self, name: &str, view: &View) -> Result<(), FormatError> {
        let (rows, cols) = (view.rows(), view.cols());
        // Rows of a mask are whole words.
        let bits = cols.checked_next_multiple_of(64).and_then(|c| c.checked_mul(rows));
        match bits {
            Some(bits) if bits as u64 <= self.bytes.saturating_mul(BITS_PER_BYTE) => Ok(()),
            _ => {
                let reason = format!(
                    "claims {rows}x{cols} weights, more than a file of {} bytes can mean",
                    self.bytes
                );
                Err(FormatError::tensor(name, reason))
            }
        }
    }
}

/// The arrays of the parameter `name`.
struct Tensors<'a, S> {
    file: &'a Safetensors<S>,
    tensors: &'a BTreeMap<&'a str, &'a TensorInfo>,
    name: &'a str,
    /// The tensors that were handed out.
    taken: Vec<String>,
}

impl<'a, S: Source> Tensors<'a, S> {
    fn full_name(&self, suffix: &str) -> String {
        if suffix.is_empty() { self.name.into() } else { format!("{}.{suffix}", self.name) }
    }

    fn take(&mut self, suffix: &str) -> Result<&'a TensorInfo, FormatError> {
        let name = self.full_name(suffix);
        match self.tensors.get(name.as_str()) {
            Some(&info) => {
                self.taken.push(name);
                Ok(info)
            }
            None => Err(FormatError::tensor(name, "is missing")),
        }
    }

    fn floats(&self, info: &TensorInfo, name: &str) -> Result<(Vec<f32>, FloatType), FormatError> {
        let float = FloatType::of(info.dtype)
            .ok_or_else(|| wrong_type(name, info.dtype, &[Dtype::F32, Dtype::F16, Dtype::BF16]))?;
        Ok((self.file.floats(info, float)?, float))
    }
}

impl<S: Source> Arrays for Tensors<'_, S> {
    fn values(&mut self) -> Result<(Vec<f32>, FloatType), FormatError> {
        let name = self.full_name("values");
        let info = self.take("values")?;
        self.floats(info, &name)
    }

    fn ids(&mut self, suffix: &str) -> Result<Vec<u32>, FormatError> {
        let name = self.full_name(suffix);
        let info = self.take(suffix)?;
        if !IDS.contains(&info.dtype) {
            return Err(wrong_type(&name, info.dtype, &IDS));
        }
        let bytes = self.file.bytes(info)?;
        Ok(match info.dtype {
            Dtype::U16 => {
                bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]).into()).collect()
            }
            _ => {
                let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                bytes.chunks_exact(4).map(word).collect()
            }
        })
    }

    fn bytes(&mut self, suffix: &str) -> Result<Vec<u8>, FormatError> {
        let name = self.full_name(suffix);
        let info = self.take(suffix)?;
        if info.dtype != Dtype::U8 {
            return Err(wrong_type(&name, info.dtype, &[Dtype::U8]));
        }
        Ok(self.file.bytes(info)?)
    }

    fn has(&self, suffix: &str) -> bool {
        self.tensors.contains_key(self.full_name(suffix).as_str())
    }

    fn fail(&self, source: PatternError) -> FormatError {
        FormatError::Pattern { name: self.name.into(), source }
    }
}

fn wrong(key: &str, found: String, expected: String) -> FormatError {
    FormatError::Metadata { key: key.into(), found, expected }
}

fn wrong_type(name: &str, found: Dtype, expected: &[Dtype]) -> FormatError {
    FormatError::tensor(name, format!("type is {found:?}, expected {expected:?}"))
}
