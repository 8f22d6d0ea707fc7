use std::collections::BTreeMap;
use std::path::Path;

use burn_sparse_pattern::format::{Entry, PackedEntry, View};

use super::rename::renamed;
use super::{Checkpoint, CheckpointError, Rename, pytorch};
use crate::params::{Parameter, view_of};

/// Tensors that were packed in the names and orientation of PyTorch, without a model.
pub(super) struct PackedForeign {
    /// Those that have not been taken yet, by their name in the model.
    entries: BTreeMap<String, Entry>,
}

impl PackedForeign {
    pub(super) fn new(path: &Path, renames: &[Rename]) -> Result<Self, CheckpointError> {
        let checkpoint = Checkpoint::read(path)?;
        // A model's checkpoint names the layer of every parameter, and stores linear weights as Burn does.
        let of_burn = |entry: &Entry| {
            !entry.layer().is_empty()
                || matches!(entry, Entry::Packed(packed) if matches!(packed.view, View::Linear { .. }))
        };
        if checkpoint.entries().values().any(of_burn) {
            return Err(CheckpointError::Ours { path: path.into() });
        }
        let entries = checkpoint.entries().iter().map(|(name, entry)| (name, entry.clone()));
        Ok(Self { entries: renamed(path, entries, renames)? })
    }

    /// Returns the entry of a parameter, or the reason why there is none.
    pub(super) fn parameter(&mut self, parameter: &Parameter) -> Result<Entry, String> {
        let name = pytorch::name_of(&parameter.layer, &parameter.name);
        let entry = self.entries.remove(&name).ok_or_else(|| format!("the file lacks {name}"))?;
        let view = view_of(&parameter.layer, &parameter.name, &parameter.shape);
        let expected = match &view {
            Some(View::Linear { rows, cols }) => vec![*rows, *cols],
            _ => parameter.shape.clone(),
        };
        if entry.shape() != expected {
            let found = entry.shape();
            return Err(format!("{name} is {found:?} in the file, the model needs {expected:?}"));
        }
        let (layer, shape) = (parameter.layer.clone(), parameter.shape.clone());
        match (entry, view) {
            // Both views are the same matrix, outputs by inputs.
            (Entry::Packed(packed), Some(view)) => {
                Ok(Entry::Packed(PackedEntry { layer, view, ..packed }))
            }
            (Entry::Packed(_), None) => Err(format!("{name} is packed, {layer} needs it dense")),
            (Entry::Dense { values, float, .. }, view) => {
                let values = match &view {
                    Some(view @ View::Linear { .. }) => view.to_stored(&values),
                    _ => values,
                };
                Ok(Entry::Dense { layer, shape, values, float, scales: None })
            }
        }
    }

    /// Iterates over the tensors that no parameter has taken.
    pub(super) fn left(self) -> impl Iterator<Item = String> {
        self.entries.into_keys()
    }
}
