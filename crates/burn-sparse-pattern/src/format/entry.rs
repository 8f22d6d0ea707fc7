use super::{FloatType, View};
use crate::{Packed, Pattern};

/// One parameter of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// Dense values, as the layer stores them.
    Dense {
        /// Layer that holds the parameter: `Linear`, `Conv2d`, …
        layer: String,
        /// Stored shape.
        shape: Vec<usize>,
        /// Stored values.
        values: Vec<f32>,
        /// Type of the values in the file.
        float: FloatType,
    },
    /// Pruned weight.
    Packed(PackedEntry),
}

/// Pruned weight in a packed layout.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedEntry {
    /// Layer that holds the weight.
    pub layer: String,
    /// View of the stored weight as a matrix.
    pub view: View,
    /// Pattern that the mask obeys.
    pub pattern: Pattern,
    /// Kept values in the layout of the pattern.
    pub packed: Packed,
    /// Type of the values in the file.
    pub float: FloatType,
}

impl Entry {
    /// Returns the stored shape of the dense parameter.
    pub fn shape(&self) -> Vec<usize> {
        match self {
            Self::Dense { shape, .. } => shape.clone(),
            Self::Packed(entry) => entry.view.stored_shape(),
        }
    }

    /// Returns the layer that holds the parameter.
    pub fn layer(&self) -> &str {
        match self {
            Self::Dense { layer, .. } => layer,
            Self::Packed(entry) => &entry.layer,
        }
    }

    /// Returns the dense values, as the layer stores them.
    pub fn stored(&self) -> Vec<f32> {
        match self {
            Self::Dense { values, .. } => values.clone(),
            Self::Packed(entry) => entry.view.to_stored(&entry.packed.unpack()),
        }
    }

    /// Returns the type of the values in the file.
    pub fn float(&self) -> FloatType {
        match self {
            Self::Dense { float, .. } => *float,
            Self::Packed(entry) => entry.float,
        }
    }
}
