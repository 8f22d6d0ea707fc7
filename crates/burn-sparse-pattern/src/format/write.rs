use std::collections::BTreeMap;
use std::io::Write;

use super::info::{
    PackedInfo, ParameterInfo, TENSORS_KEY, VERSION, VERSION_KEY, VERSION_WITH_SCALES,
};
use super::{
    Array, Entry, FloatType, FormatError, PackedFile, layouts, plausible, scales, write_safetensors,
};
use crate::Packed;

impl PackedFile {
    /// Writes the file. Equal contents give bitwise identical files.
    ///
    /// # Errors
    /// Returns an error if a packed parameter violates its declared pattern, two arrays would have the
    /// same name, or writing fails; nothing is written in the first two cases.
    pub fn write(&self, out: &mut dyn Write) -> Result<(), FormatError> {
        write_parameters(&self.entries, &self.metadata, out)
    }

    /// Returns the bytes that [`Self::write`] writes.
    ///
    /// # Errors
    /// Same as [`Self::write`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, FormatError> {
        let mut bytes = Vec::new();
        self.write(&mut bytes)?;
        Ok(bytes)
    }
}

/// Writes a file like [`PackedFile::write`], from parameters that need not be moved into a
/// [`PackedFile`].
///
/// # Errors
/// Same as [`PackedFile::write`].
pub fn write_parameters(
    entries: &BTreeMap<String, Entry>,
    metadata: &BTreeMap<String, String>,
    out: &mut dyn Write,
) -> Result<(), FormatError> {
    let (mut arrays, mut infos) = (BTreeMap::new(), BTreeMap::new());
    let (mut version, mut scales_axis) = (VERSION, None);
    for (name, entry) in entries {
        let packed = match entry {
            Entry::Dense { shape, values, scales: Some(scales), .. } => {
                let rows = shape.get(scales.axis).copied().unwrap_or(0);
                scales::check(name, &scales.values, rows)?;
                if shape.iter().product::<usize>() != values.len() {
                    let reason = format!("{} elements for {shape:?}", values.len());
                    return Err(FormatError::tensor(name.as_str(), reason));
                }
                (version, scales_axis) = (VERSION_WITH_SCALES, Some(scales.axis));
                let array = Array::signed_bytes(shape.clone(), scales.integers(shape, values));
                add(&mut arrays, name.clone(), array)?;
                let array = Array::floats(vec![rows], &scales.values, FloatType::F32);
                add(&mut arrays, format!("{name}.scales"), array)?;
                None
            }
            Entry::Dense { shape, values, float, .. } => {
                let array = Array::floats(shape.clone(), values, *float);
                add(&mut arrays, name.clone(), array)?;
                None
            }
            Entry::Packed(entry) => {
                let seen = (entry.view.rows(), entry.view.cols());
                let found = (entry.packed.rows(), entry.packed.cols());
                if seen != found {
                    let reason = format!("a view of {seen:?} on a matrix of {found:?}");
                    return Err(FormatError::tensor(name.as_str(), reason));
                }
                let fail = |source| FormatError::Pattern { name: name.clone(), source };
                entry.packed.check(&entry.pattern).map_err(fail)?;
                if let Some(scales) = &entry.scales {
                    scales::check(name, scales, found.0)?;
                    version = VERSION_WITH_SCALES;
                }
                for (suffix, array) in layouts::arrays(entry) {
                    add(&mut arrays, format!("{name}.{suffix}"), array)?;
                }
                Some(PackedInfo {
                    pattern: entry.pattern,
                    view: entry.view.clone(),
                    sparsity: entry.packed.sparsity(),
                    mask_hash: entry.packed.mask_hash(),
                    kept: match &entry.packed {
                        Packed::Balanced(packed) => Some(packed.kept()),
                        _ => None,
                    },
                })
            }
        };
        let info = ParameterInfo {
            layer: entry.layer().into(),
            shape: entry.shape(),
            packed,
            scales_axis: scales_axis.take(),
        };
        infos.insert(name.clone(), info);
    }
    let views = entries.iter().filter_map(|(name, entry)| match entry {
        Entry::Packed(entry) => Some((name.as_str(), &entry.view)),
        Entry::Dense { .. } => None,
    });
    plausible::check(views, arrays.values().map(Array::size).sum())?;
    let mut metadata = metadata.clone();
    metadata.insert(VERSION_KEY.into(), version.into());
    let infos = serde_json::to_string(&infos).map_err(std::io::Error::other)?;
    metadata.insert(TENSORS_KEY.into(), infos);
    Ok(write_safetensors(&arrays, &metadata, out)?)
}

fn add<'a>(
    arrays: &mut BTreeMap<String, Array<'a>>,
    name: String,
    array: Array<'a>,
) -> Result<(), FormatError> {
    match arrays.insert(name.clone(), array) {
        None => Ok(()),
        Some(_) => Err(FormatError::tensor(name, "belongs to two parameters")),
    }
}
