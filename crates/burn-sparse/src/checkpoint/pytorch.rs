//! Names and orientation of PyTorch: `Linear` as `[out, in]`, norms with `weight` and `bias`.

use std::collections::BTreeMap;

use burn_sparse_pattern::format::{Array, Data, Entry, FormatError, View};

use crate::params::view_of;

/// Returns the PyTorch name of a parameter.
pub(super) fn name_of(layer: &str, name: &str) -> String {
    let norm = layer.ends_with("Norm");
    match name.rsplit_once('.') {
        Some((module, "gamma")) if norm => format!("{module}.weight"),
        Some((module, "beta")) if norm => format!("{module}.bias"),
        _ => name.into(),
    }
}

/// Exports all parameters for PyTorch; with `bitmask`, the packed matrices as bit masks.
pub(super) fn export(
    entries: &BTreeMap<String, Entry>,
    bitmask: bool,
) -> Result<BTreeMap<String, Array<'static>>, FormatError> {
    let mut arrays = BTreeMap::new();
    let mut add = |name: String, array| match arrays.insert(name.clone(), array) {
        None => Ok(()),
        Some(_) => {
            let reason = "is PyTorch's name for two parameters".into();
            Err(FormatError::Tensor { name, reason })
        }
    };
    for (name, entry) in entries {
        let renamed = name_of(entry.layer(), name);
        match entry {
            Entry::Packed(packed) if bitmask && !packed.view.is_convolution() => {
                let layer = renamed.strip_suffix(".weight").unwrap_or(&renamed);
                let unstructured = packed.packed.to_unstructured();
                let (rows, cols) = (unstructured.rows(), unstructured.cols());
                let offsets = unstructured.row_offsets().map(|offset| offset as i64).collect();
                let kept = unstructured.values().len();
                let width = unstructured.bitmask().len() / rows;
                let compressed =
                    Array::floats(vec![kept], unstructured.values().to_vec(), packed.float);
                let bits = Array::bytes(vec![rows, width], unstructured.bitmask().to_vec());
                let shape = vec![rows as i64, cols as i64];
                for (suffix, array) in [
                    ("compressed", compressed),
                    ("bitmask", bits),
                    ("row_offsets", Array { shape: vec![rows], data: Data::Ids64(offsets) }),
                    ("shape", Array { shape: vec![2], data: Data::Ids64(shape) }),
                ] {
                    add(format!("{layer}.{suffix}"), array)?;
                }
            }
            _ => {
                let (shape, values) = (entry.shape(), entry.stored());
                let array = match view_of(entry.layer(), name, &shape) {
                    Some(view @ View::Linear { rows, cols }) => {
                        Array::floats(vec![rows, cols], view.to_matrix(&values), entry.float())
                    }
                    _ => Array::floats(shape, values, entry.float()),
                };
                add(renamed, array)?;
            }
        }
    }
    Ok(arrays)
}
