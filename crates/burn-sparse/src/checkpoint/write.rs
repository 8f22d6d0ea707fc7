use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use burn_sparse_pattern::Packed;
use safetensors::tensor::TensorView;
use serde::{Deserialize, Serialize};

use super::arrays::{Array, write as write_arrays};
use super::{Checkpoint, CheckpointError, Entry, Format, write_atomically};
use crate::modules::View;

/// The version of the format.
pub(crate) const VERSION: &str = "1";

/// What the metadata says of one parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TensorInfo {
    pub(crate) layer: String,
    pub(crate) shape: Vec<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) packed: Option<PackedInfo>,
}

/// What the metadata says of a packed parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PackedInfo {
    pub(crate) pattern: burn_sparse_pattern::Pattern,
    pub(crate) view: View,
    pub(crate) sparsity: f64,
    pub(crate) mask_hash: String,
    /// Kept weights of a full block, for patterns that count by block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<usize>,
}

impl Checkpoint {
    /// Writes the file under a temporary name, syncs it and renames it: an older file of the name
    /// stays whole until the new one is.
    ///
    /// # Errors
    /// When the system refuses; the older file is intact then.
    pub fn write(&self, path: impl AsRef<Path>, format: Format) -> Result<(), CheckpointError> {
        let path = path.as_ref();
        let fail = |source| CheckpointError::Write { path: path.into(), source };
        let bytes = self.to_bytes(format).map_err(std::io::Error::other).map_err(fail)?;
        write_atomically(path, &bytes).map_err(fail)
    }

    fn to_bytes(&self, format: Format) -> Result<Vec<u8>, safetensors::SafeTensorError> {
        let (mut arrays, mut infos) = (BTreeMap::new(), BTreeMap::new());
        for (name, entry) in &self.entries {
            let packed = match entry {
                Entry::Packed(entry) if format == Format::Packed => {
                    for (suffix, array) in write_arrays(&entry.packed) {
                        arrays.insert(format!("{name}.{suffix}"), array);
                    }
                    let mask = entry.packed.mask();
                    let kept = match &entry.packed {
                        Packed::Balanced(packed) => Some(packed.kept()),
                        _ => None,
                    };
                    Some(PackedInfo {
                        pattern: entry.pattern,
                        view: entry.view.clone(),
                        sparsity: mask.sparsity(),
                        mask_hash: mask.hash(),
                        kept,
                    })
                }
                _ => {
                    let (name, array) = dense(name, entry, format);
                    arrays.insert(name, array);
                    None
                }
            };
            let info = TensorInfo { layer: entry.layer().into(), shape: entry.shape(), packed };
            infos.insert(name.clone(), info);
        }
        let views: Result<Vec<_>, _> = arrays
            .iter()
            .map(|(name, array)| {
                let view = TensorView::new(array.dtype, array.shape.clone(), &array.bytes)?;
                Ok::<_, safetensors::SafeTensorError>((name.as_str(), view))
            })
            .collect();
        let metadata = match format {
            Format::DensePyTorch => HashMap::from([("format".into(), "pt".into())]),
            _ => self.metadata(&infos),
        };
        safetensors::serialize(views?, Some(metadata))
    }

    fn metadata(&self, infos: &BTreeMap<String, TensorInfo>) -> HashMap<String, String> {
        // None of these can fail to be JSON: strings, numbers, lists and maps with string keys.
        let json = |value: Result<String, serde_json::Error>| value.unwrap_or_default();
        let mut metadata = HashMap::from([
            ("burn-sparse.version".into(), VERSION.into()),
            ("burn-sparse.tool".into(), concat!("burn-sparse ", env!("CARGO_PKG_VERSION")).into()),
            ("burn-sparse.tensors".into(), json(serde_json::to_string(infos))),
            ("burn-sparse.results".into(), json(serde_json::to_string(&self.provenance.results))),
        ]);
        if let Some(recipe) = &self.provenance.recipe {
            metadata.insert("burn-sparse.recipe".into(), recipe.to_toml());
        }
        if let Some(plan) = &self.provenance.plan {
            metadata.insert("burn-sparse.plan".into(), json(serde_json::to_string(plan)));
        }
        metadata
    }
}

/// A dense parameter under its name and in its orientation for `format`.
fn dense(name: &str, entry: &Entry, format: Format) -> (String, Array) {
    let (shape, stored) = (entry.shape(), entry.stored());
    if format != Format::DensePyTorch {
        return (name.into(), Array::floats(shape, &stored));
    }
    match View::of(entry.layer(), name, &shape) {
        Some(view @ View::Linear { rows, cols }) => {
            (name.into(), Array::floats(vec![rows, cols], &view.to_matrix(&stored)))
        }
        _ => {
            let norm = entry.layer().ends_with("Norm");
            let renamed = match name.rsplit_once('.') {
                Some((layer, "gamma")) if norm => format!("{layer}.weight"),
                Some((layer, "beta")) if norm => format!("{layer}.bias"),
                _ => name.into(),
            };
            (renamed, Array::floats(shape, &stored))
        }
    }
}
