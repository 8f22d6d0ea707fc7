use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rayon::prelude::*;
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;

use super::info::{
    PackedInfo, ParameterInfo, TENSORS_KEY, VERSION, VERSION_INT4, VERSION_INT8, VERSION_KEY,
    needed_version,
};
use super::layouts::{self, Arrays, IDS};
use super::unique::Unique;
use super::{
    DenseScales, Entry, FloatType, FormatError, Integers, PackedEntry, PackedFile, Safetensors,
    Scales, Source, plausible, scales,
};
use crate::{Pattern, PatternError};

impl PackedFile {
    /// Reads a file in pieces and checks everything in it: lengths, ids, orders, patterns, mask hashes.
    /// The arrays take no more memory than the size of the file, or twice that for two-byte values, four and eight times for
    /// integers of 8 and 4 bits; scaling the integers of a packed weight takes 12 more bytes for each of its values. Parsing the
    /// JSON header takes several times its length.
    ///
    /// # Errors
    /// Returns an error that names the tensor, and what was expected and found.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FormatError> {
        Self::read(File::open(path)?)
    }

    /// Reads a file from any source, like [`Self::open`].
    ///
    /// # Errors
    /// Returns the same errors as [`Self::open`].
    pub fn read(source: impl Source) -> Result<Self, FormatError> {
        Reader { file: Safetensors::open(source)? }.read()
    }
}

struct Reader<S> {
    file: Safetensors<S>,
}

impl<S: Source> Reader<S> {
    fn read(self) -> Result<PackedFile, FormatError> {
        let mut metadata = self.file.metadata().clone();
        let version = metadata.remove(VERSION_KEY);
        let known = [VERSION, VERSION_INT8, VERSION_INT4];
        if !version.as_deref().is_some_and(|version| known.contains(&version)) {
            let found = version.map_or("missing".into(), |version| format!("`{version}`"));
            let expected = format!("`{VERSION}`, `{VERSION_INT8}` or `{VERSION_INT4}`");
            return Err(wrong_metadata(VERSION_KEY, found, expected));
        }
        let Some(text) = metadata.remove(TENSORS_KEY) else {
            return Err(wrong_metadata(TENSORS_KEY, "missing".into(), "a map".into()));
        };
        let infos: Unique<ParameterInfo> = serde_json::from_str(&text)
            .map_err(|error| wrong_metadata(TENSORS_KEY, error.to_string(), "valid JSON".into()))?;
        let views = infos.0.iter().filter_map(|(name, info)| {
            info.packed.as_ref().map(|packed| (name.as_str(), &packed.view))
        });
        plausible::check(views, self.file.data_bytes())?;
        let tensors = self.file.tensors().iter();
        let tensors = tensors.map(|(name, info)| (name.as_str(), (info, AtomicBool::new(false))));
        let tensors: BTreeMap<&str, (&TensorInfo, AtomicBool)> = tensors.collect();
        let read: Vec<Result<(String, Entry), FormatError>> = infos
            .0
            .into_par_iter()
            .map(|(name, info)| {
                let block = info.scales_block;
                let arrays = Tensors { file: &self.file, tensors: &tensors, name: &name, block };
                let entry = entry(arrays, info)?;
                Ok((name, entry))
            })
            .collect();
        let entries: BTreeMap<String, Entry> = read.into_iter().collect::<Result<_, _>>()?;
        for (name, entry) in &entries {
            let (needed, found) = (needed_version(entry), version.as_deref().unwrap_or_default());
            if found < needed {
                let reason = format!("is of version {needed}, the file of version {found}");
                return Err(FormatError::tensor(name.as_str(), reason));
            }
        }
        match tensors.iter().find(|(_, (_, taken))| !taken.load(Relaxed)) {
            Some((name, _)) => Err(FormatError::tensor(*name, "belongs to no parameter")),
            None => Ok(PackedFile { entries, metadata }),
        }
    }
}

fn entry<S: Source>(
    mut tensors: Tensors<'_, S>,
    info: ParameterInfo,
) -> Result<Entry, FormatError> {
    let ParameterInfo { layer, shape, packed, scales_axis, scales_block } = info;
    let Some(packed) = packed else {
        let found = tensors.take("")?;
        if scales_block.is_none() && found.shape != shape {
            let reason = format!("shape is {:?}, expected {shape:?}", found.shape);
            return Err(FormatError::tensor(tensors.name, reason));
        }
        let Some(axis) = scales_axis else {
            if scales_block.is_some() {
                return Err(tensors.lacks("`scales_axis`, the axis of the scales"));
            }
            let (values, float) = tensors.floats(found, tensors.name)?;
            return Ok(Entry::Dense { layer, shape, values, float, scales: None });
        };
        let Some(&rows) = shape.get(axis) else {
            let reason = format!("its description has scales on axis {axis} of {shape:?}");
            return Err(FormatError::tensor(tensors.name, reason));
        };
        let count = shape.iter().try_fold(1_usize, |all, &size| all.checked_mul(size));
        if count == Some(0) {
            let reason = format!("its description has scales, but {shape:?} has no values");
            return Err(FormatError::tensor(tensors.name, reason));
        }
        let mut values = tensors.integers(found, tensors.name, count.unwrap_or(usize::MAX))?;
        let size = (rows, values.len() / rows.max(1));
        let scales = DenseScales { axis, scales: tensors.scales(size, false)? };
        scales.multiply(&shape, &mut values);
        let (float, scales) = (FloatType::F32, Some(scales));
        return Ok(Entry::Dense { layer, shape, values, float, scales });
    };
    if scales_axis.is_some() {
        let reason = "its description has an axis of scales, which packed weights have by rows";
        return Err(FormatError::tensor(tensors.name, reason));
    }
    let PackedInfo { pattern, view, sparsity, mask_hash, kept } = packed;
    let name = tensors.name;
    let wrong = |reason| Err(FormatError::tensor(name, reason));
    let seen = view.stored_shape();
    if seen != shape {
        return wrong(format!("a view of {seen:?}, the layer stores {shape:?}"));
    }
    if kept.is_some() && !matches!(pattern, Pattern::Balanced { .. } | Pattern::NOfM { .. }) {
        return wrong(format!("its description has `kept`, which {pattern} does not count"));
    }
    let (packed, float, scales) =
        layouts::packed((view.rows(), view.cols()), &pattern, kept, &mut tensors)?;
    let found = packed.mask_hash();
    if found != mask_hash {
        return Err(FormatError::Hash { name: name.into(), expected: mask_hash, found });
    }
    // Allows for rounding error, because the decimal digits may lose the last bit.
    let found = packed.sparsity();
    if (found - sparsity).abs() > 1e-12 {
        return wrong(format!("sparsity is {sparsity}, the mask has {found}"));
    }
    Ok(Entry::Packed(PackedEntry { layer, view, pattern, packed, float, scales }))
}

/// Arrays of the parameter `name`.
struct Tensors<'a, S> {
    file: &'a Safetensors<S>,
    /// All tensors of the file, each with a flag that is set once it has been taken.
    tensors: &'a BTreeMap<&'a str, (&'a TensorInfo, AtomicBool)>,
    name: &'a str,
    /// Number of columns that share a scale, if the values are integers in 4 bits.
    block: Option<usize>,
}

impl<'a, S: Source> Tensors<'a, S> {
    fn full_name(&self, suffix: &str) -> String {
        if suffix.is_empty() { self.name.into() } else { format!("{}.{suffix}", self.name) }
    }

    fn take(&self, suffix: &str) -> Result<&'a TensorInfo, FormatError> {
        let name = self.full_name(suffix);
        match self.tensors.get(name.as_str()) {
            // Set before reading, so that no array can be read twice.
            Some((_, taken)) if taken.swap(true, Relaxed) => {
                Err(FormatError::tensor(name, "belongs to two parameters"))
            }
            Some(&(info, _)) => Ok(info),
            None => Err(FormatError::tensor(name, "is missing")),
        }
    }

    fn floats(&self, info: &TensorInfo, name: &str) -> Result<(Vec<f32>, FloatType), FormatError> {
        let float = FloatType::of(info.dtype)
            .ok_or_else(|| wrong_type(name, info.dtype, &[Dtype::F32, Dtype::F16, Dtype::BF16]))?;
        Ok((self.file.floats(info, float)?, float))
    }

    /// Reads this many values in 8 or 4 bits as integers.
    fn integers(
        &self,
        info: &TensorInfo,
        name: &str,
        count: usize,
    ) -> Result<Vec<f32>, FormatError> {
        let dtype = if self.block.is_some() { Dtype::U8 } else { Dtype::I8 };
        if info.dtype != dtype {
            return Err(wrong_type(name, info.dtype, &[dtype]));
        }
        let bytes = self.file.bytes(info)?;
        if self.block.is_some() {
            return scales::unpack_levels(&bytes, count).ok_or_else(|| {
                let reason = format!(
                    "{} bytes with codes of 4 bits, expected {count} codes and zeros after them",
                    bytes.len()
                );
                FormatError::tensor(name, reason)
            });
        }
        let integers: &[i8] = bytemuck::cast_slice(&bytes);
        scales::check_integers(name, integers)?;
        Ok(integers.iter().copied().map(f32::from).collect())
    }
}

impl<S: Source> Arrays for Tensors<'_, S> {
    fn values(&mut self, count: usize) -> Result<(Vec<f32>, Option<FloatType>), FormatError> {
        let name = self.full_name("values");
        let info = self.take("values")?;
        if info.dtype == Dtype::I8 || self.block.is_some() {
            return Ok((self.integers(info, &name, count)?, None));
        }
        let (values, float) = self.floats(info, &name)?;
        Ok((values, Some(float)))
    }

    fn scales(
        &mut self,
        (rows, cols): (usize, usize),
        is_packed: bool,
    ) -> Result<Scales, FormatError> {
        let name = self.full_name("scales");
        let info = self.take("scales")?;
        let float = if self.block.is_some() { FloatType::BF16 } else { FloatType::F32 };
        if info.dtype != float.dtype() {
            return Err(wrong_type(&name, info.dtype, &[float.dtype()]));
        }
        let values = self.file.floats(info, float)?;
        let scales = match self.block {
            None => Scales::of_rows(values),
            Some(block) => {
                scales::check_block(&name, block, is_packed)?;
                let expected = [rows, cols.div_ceil(block)];
                if info.shape != expected {
                    let reason = format!("shape is {:?}, expected {expected:?}", info.shape);
                    return Err(FormatError::tensor(name, reason));
                }
                Scales::new(Integers::Int4, cols, block, values)
            }
        };
        scales.check(&name, (rows, cols), is_packed)?;
        Ok(scales)
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

    fn lacks(&self, what: &str) -> FormatError {
        FormatError::tensor(self.name, format!("its description lacks {what}"))
    }

    fn fail(&self, source: PatternError) -> FormatError {
        FormatError::Pattern { name: self.name.into(), source }
    }
}

fn wrong_metadata(key: &str, found: String, expected: String) -> FormatError {
    FormatError::Metadata { key: key.into(), found, expected }
}

fn wrong_type(name: &str, found: Dtype, expected: &[Dtype]) -> FormatError {
    FormatError::tensor(name, format!("type is {found:?}, expected {expected:?}"))
}
