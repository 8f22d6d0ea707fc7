use std::collections::BTreeMap;

use burn_sparse_pattern::{Packed, Pattern};
use serde::{Deserialize, Serialize};

use crate::modules::View;
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

/// One parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// Stored values, as the layer keeps them.
    Dense {
        /// The layer that holds it: `Linear`, `Conv2d`, …
        layer: String,
        /// The stored shape.
        shape: Vec<usize>,
        /// The values.
        values: Vec<f32>,
    },
    /// A pruned weight.
    Packed(PackedEntry),
}

/// A pruned weight.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedEntry {
    /// The layer that holds it.
    pub layer: String,
    /// How its stored weight is seen as a matrix.
    pub view: View,
    /// The pattern its mask obeys.
    pub pattern: Pattern,
    /// Its kept values.
    pub packed: Packed,
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
}

impl Entry {
    /// The stored shape of the dense parameter.
    pub fn shape(&self) -> Vec<usize> {
        match self {
            Self::Dense { shape, .. } => shape.clone(),
            Self::Packed(entry) => entry.view.stored_shape(),
        }
    }

    /// The layer that holds it.
    pub fn layer(&self) -> &str {
        match self {
            Self::Dense { layer, .. } => layer,
            Self::Packed(entry) => &entry.layer,
        }
    }

    /// The dense values, as the layer stores them.
    pub fn stored(&self) -> Vec<f32> {
        match self {
            Self::Dense { values, .. } => values.clone(),
            Self::Packed(entry) => entry.view.to_stored(&entry.packed.unpack()),
        }
    }
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
            kept += entry.packed.mask().kept();
        }
        if all == 0 { 0.0 } else { (all - kept) as f64 / all as f64 }
    }
}
