use std::collections::BTreeMap;

use burn_sparse_pattern::format::{Entry, FloatType, PackedEntry};
use serde::{Deserialize, Serialize};

use super::CheckpointError;
use crate::plan::Plan;
use crate::recipe::Recipe;

/// The parameters of a model, packed or dense, and where they come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// Every parameter by its path.
    pub entries: BTreeMap<String, Entry>,
    /// Where they come from.
    pub provenance: Provenance,
}

/// What was done to get these parameters.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Provenance {
    /// The recipe.
    pub recipe: Option<Recipe>,
    /// The plan.
    pub plan: Option<Plan>,
    /// Results, as the training command reports them.
    #[serde(default)]
    pub results: serde_json::Value,
}

/// How a checkpoint is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Pruned weights keep only what their masks keep.
    #[default]
    Packed,
    /// Plain weights with zeros, in Burn's names and orientation.
    DenseBurn,
    /// Plain weights with zeros, in PyTorch's names and orientation (`Linear` as `[out, in]`, norms
    /// with `weight` and `bias`).
    DensePyTorch,
    /// As [`Self::DensePyTorch`], with every pruned matrix in the `sparse-bitmask` layout of
    /// compressed-tensors: of the layer `P`, `P.compressed`, `P.bitmask`, `P.row_offsets`, `P.shape`.
    SparseBitmask,
}

impl Checkpoint {
    /// The pruned weights.
    pub fn packed(&self) -> impl Iterator<Item = (&str, &PackedEntry)> {
        self.entries.iter().filter_map(|(name, entry)| match entry {
            Entry::Packed(entry) => Some((name.as_str(), entry)),
            Entry::Dense { .. } => None,
        })
    }

    /// The distinct patterns in the order of their parameters' names, as a recipe spells them.
    pub fn patterns(&self) -> String {
        let mut patterns: Vec<String> = Vec::new();
        for (_, entry) in self.packed() {
            let pattern = entry.pattern.to_string();
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        patterns.join(",")
    }

    /// The share of zeros of all pruned weights.
    pub fn sparsity(&self) -> f64 {
        let (mut all, mut kept) = (0, 0);
        for (_, entry) in self.packed() {
            all += entry.view.rows() * entry.view.cols();
            kept += entry.packed.kept();
        }
        if all == 0 { 0.0 } else { (all - kept) as f64 / all as f64 }
    }

    /// The same with values of another type in the file: two-byte ones halve it, and round what they
    /// cannot hold.
    ///
    /// # Errors
    /// When a value would become infinite.
    pub fn with_float(mut self, float: FloatType) -> Result<Self, CheckpointError> {
        for (name, entry) in &mut self.entries {
            let (old, values) = match entry {
                Entry::Dense { float, values, .. } => (float, values.as_slice()),
                Entry::Packed(PackedEntry { float, packed, .. }) => (float, packed.values()),
            };
            let most = values.iter().filter(|v| v.is_finite()).fold(0.0_f32, |m, v| m.max(v.abs()));
            let mut rounded = [0.0];
            float.decode(&float.encode(&[most]), &mut rounded);
            if !rounded[0].is_finite() {
                return Err(CheckpointError::Range { name: name.clone(), value: most, float });
            }
            *old = float;
        }
        Ok(self)
    }
}
