use super::{FloatType, Scales, ValueType, View};
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
        /// Type of the values in the file, unless they have scales.
        float: FloatType,
        /// Scales of values that the file stores in 8 bits; the values are multiples of them.
        scales: Option<Scales>,
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
    /// Type of the values in the file, unless they have scales.
    pub float: FloatType,
    /// Scales of the rows if the file stores values in 8 bits; the values are multiples of them.
    pub scales: Option<Vec<f32>>,
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

    /// Returns the type of the values in the file, unless they have scales.
    pub fn float(&self) -> FloatType {
        match self {
            Self::Dense { float, .. } => *float,
            Self::Packed(entry) => entry.float,
        }
    }

    /// Returns the type of the values in the file.
    pub fn value_type(&self) -> ValueType {
        let scaled = match self {
            Self::Dense { scales, .. } => scales.is_some(),
            Self::Packed(entry) => entry.scales.is_some(),
        };
        if scaled { ValueType::Int8 } else { self.float().into() }
    }
}
