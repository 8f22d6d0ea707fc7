use super::{DenseScales, FloatType, Scales, ValueType, View};
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
        /// Scales of values that the file stores as integers; the values are multiples of them.
        scales: Option<DenseScales>,
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
    /// Scales of values that the file stores as integers; the values are multiples of them.
    pub scales: Option<Scales>,
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
        match self {
            Self::Dense { scales: Some(scales), .. } => scales.scales.integers().into(),
            Self::Dense { float, .. } => (*float).into(),
            Self::Packed(entry) => entry.value_type(),
        }
    }
}

impl PackedEntry {
    /// Returns the type of the values in the file.
    pub fn value_type(&self) -> ValueType {
        match &self.scales {
            Some(scales) => scales.integers().into(),
            None => self.float.into(),
        }
    }
}
