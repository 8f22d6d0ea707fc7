use serde::{Deserialize, Serialize};

use super::{Entry, Integers, PackedEntry, Scales, View};
use crate::{Packed, Pattern};

/// Version of the format.
pub(super) const VERSION: &str = "1";

/// Version of files with values in 8 bits.
pub(super) const VERSION_INT8: &str = "2";

/// Version of files with values in 4 bits.
pub(super) const VERSION_INT4: &str = "3";

pub(super) const VERSION_KEY: &str = "burn-sparse.version";
pub(super) const TENSORS_KEY: &str = "burn-sparse.tensors";

/// Returns the first version of the format that can hold a parameter.
pub(super) fn needed_version(entry: &Entry) -> &'static str {
    let scales = match entry {
        Entry::Dense { scales, .. } => scales.as_ref().map(|scales| &scales.scales),
        Entry::Packed(PackedEntry { scales, .. }) => scales.as_ref(),
    };
    match scales.map(Scales::integers) {
        None => VERSION,
        Some(Integers::Int8) => VERSION_INT8,
        Some(Integers::Int4) => VERSION_INT4,
    }
}

/// Metadata of one parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ParameterInfo {
    pub(super) layer: String,
    pub(super) shape: Vec<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) packed: Option<PackedInfo>,
    /// Axis of the scales of a dense parameter that is stored as integers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scales_axis: Option<usize>,
    /// Number of columns that share a scale of integers in 4 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scales_block: Option<usize>,
}

/// Metadata of a packed parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PackedInfo {
    pub(super) pattern: Pattern,
    pub(super) view: View,
    pub(super) sparsity: f64,
    pub(super) mask_hash: String,
    /// Kept weights per full block, for patterns that count by block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kept: Option<usize>,
}

impl PackedInfo {
    pub(super) fn of(entry: &PackedEntry) -> Self {
        let kept = match &entry.packed {
            Packed::Balanced(packed) => Some(packed.kept()),
            _ => None,
        };
        Self {
            pattern: entry.pattern,
            view: entry.view.clone(),
            sparsity: entry.packed.sparsity(),
            mask_hash: entry.packed.mask_hash(),
            kept,
        }
    }
}
