use std::collections::BTreeMap;
use std::io::Write;

use super::info::{PackedInfo, ParameterInfo, TENSORS_KEY, VERSION, VERSION_KEY, needed_version};
use super::{
    Array, Entry, FormatError, Integers, PackedFile, Scales, layouts, plausible, write_safetensors,
};

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
    /// Returns the same errors as [`Self::write`].
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
/// Returns the same errors as [`PackedFile::write`].
pub fn write_parameters(
    entries: &BTreeMap<String, Entry>,
    metadata: &BTreeMap<String, String>,
    out: &mut dyn Write,
) -> Result<(), FormatError> {
    let (mut arrays, mut infos) = (BTreeMap::new(), BTreeMap::new());
    let mut version = VERSION;
    for (name, entry) in entries {
        let (mut scales_axis, mut scales_block) = (None, None);
        version = version.max(needed_version(entry));
        let mut note = |scales: &Scales| {
            scales_block = (scales.integers() == Integers::Int4).then(|| scales.block());
        };
        let packed = match entry {
            Entry::Dense { shape, values, scales: Some(scales), .. } => {
                let rows = shape.get(scales.axis).copied().unwrap_or(0);
                if shape.iter().product::<usize>() != values.len() {
                    let reason = format!("{} elements for {shape:?}", values.len());
                    return Err(FormatError::tensor(name.as_str(), reason));
                }
                scales.scales.check(name, (rows, values.len() / rows.max(1)), false)?;
                note(&scales.scales);
                scales_axis = Some(scales.axis);
                let integers = scales.integers(shape, values);
                add(&mut arrays, name.clone(), scales.scales.array(shape.clone(), integers))?;
                add(&mut arrays, format!("{name}.scales"), scales.scales.as_array())?;
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
                    scales.check(name, found, true)?;
                    note(scales);
                }
                for (suffix, array) in layouts::arrays(entry) {
                    add(&mut arrays, format!("{name}.{suffix}"), array)?;
                }
                Some(PackedInfo::of(entry))
            }
        };
        let info = ParameterInfo {
            layer: entry.layer().into(),
            shape: entry.shape(),
            packed,
            scales_axis,
            scales_block,
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
