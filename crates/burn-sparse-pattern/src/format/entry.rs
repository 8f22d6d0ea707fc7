use super::{FloatType, View};
use crate::{Packed, Pattern};

/// One parameter of a file.
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
        /// Their type in the file.
        float: FloatType,
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
    /// Their type in the file.
    pub float: FloatType,
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

    /// The type of its values in the file.
    pub fn float(&self) -> FloatType {
        match self {
            Self::Dense { float, .. } => *float,
            Self::Packed(entry) => entry.float,
        }
    }
}
