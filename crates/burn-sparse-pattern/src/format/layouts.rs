//! Arrays that store a packed layout on disk.

use safetensors::Dtype;

use super::{Array, FloatType, FormatError, PackedEntry, ValueType};
use crate::{
    BalancedPacked, GroupedPacked, HierarchicalPacked, Packed, Pattern, RowOrder,
    UnstructuredPacked,
};

/// Returns the arrays of a packed parameter with the suffixes of their names.
pub(super) fn arrays(entry: &PackedEntry) -> Vec<(&'static str, Array<'_>)> {
    let values = |shape, packed| match &entry.scales {
        Some(scales) => Array::signed_bytes(shape, entry.packed.integers(scales)),
        None => Array::floats(shape, packed, entry.float),
    };
    let mut arrays = match &entry.packed {
        Packed::Unstructured(packed) => {
            let shape = vec![packed.rows(), packed.cols().div_ceil(8)];
            vec![
                ("values", values(vec![packed.values().len()], packed.values())),
                ("bitmask", Array::bytes(shape, packed.bitmask())),
            ]
        }
        Packed::Balanced(packed) => {
            let shape = vec![packed.rows(), packed.kept_per_row()];
            vec![
                ("values", values(shape.clone(), packed.values())),
                ("indices", Array::bytes(shape, packed.indices())),
            ]
        }
        Packed::Grouped(packed) => {
            let columns = packed.columns().len();
            let mut arrays = vec![
                ("values", values(vec![columns, packed.vector()], packed.values())),
                ("columns", Array::ids(vec![columns], packed.columns(), packed.cols())),
            ];
            if packed.equal_count().is_none() {
                let offsets = packed.offsets();
                arrays
                    .push(("group_offsets", Array::ids(vec![offsets.len()], offsets, usize::MAX)));
            }
            if let Some(order) = packed.row_order() {
                arrays.push(("row_order", row_order(order)));
            }
            arrays
        }
        Packed::Hierarchical(packed) => {
            let (shape, (_, of)) = (vec![packed.rows(), packed.kept_per_row()], packed.keep_of());
            let runs = vec![packed.columns().len() / of, of];
            vec![
                ("values", values(shape.clone(), packed.values())),
                ("indices", Array::bytes(shape, packed.indices())),
                ("columns", Array::ids(runs, packed.columns(), packed.cols())),
                ("row_order", row_order(packed.row_order())),
            ]
        }
    };
    if let Some(scales) = &entry.scales {
        arrays.push(("scales", Array::floats(vec![scales.len()], scales, FloatType::F32)));
    }
    arrays
}

fn row_order(order: &RowOrder) -> Array<'_> {
    Array::ids(vec![order.rows()], order.as_slice(), order.rows())
}

/// Access to the arrays of one parameter, each in the type that its layout requires.
pub(super) trait Arrays {
    /// Reads the values, integers as such, and their type.
    fn values(&mut self) -> Result<(Vec<f32>, ValueType), FormatError>;
    /// Reads the scales of as many rows.
    fn scales(&mut self, rows: usize) -> Result<Vec<f32>, FormatError>;
    /// Reads ids stored as U16 or U32.
    fn ids(&mut self, suffix: &str) -> Result<Vec<u32>, FormatError>;
    /// Reads bytes.
    fn bytes(&mut self, suffix: &str) -> Result<Vec<u8>, FormatError>;
    /// Returns `true` if there is an array with this suffix.
    fn has(&self, suffix: &str) -> bool;
    /// Returns the error for something that the description of this parameter lacks.
    fn lacks(&self, what: &str) -> FormatError;
    /// Returns the error of this parameter for a pattern error.
    fn fail(&self, source: crate::PatternError) -> FormatError;
}

/// Types of ids.
pub(super) const IDS: [Dtype; 2] = [Dtype::U16, Dtype::U32];

/// Assembles a packed matrix from the arrays of a parameter, and checks it against the pattern.
pub(super) fn packed(
    shape: (usize, usize),
    pattern: &Pattern,
    kept: Option<usize>,
    arrays: &mut impl Arrays,
) -> Result<(Packed, FloatType, Option<Vec<f32>>), FormatError> {
    let (values, value_type) = arrays.values()?;
    let packed = match *pattern {
        Pattern::Unstructured {} => {
            let bitmask = arrays.bytes("bitmask")?;
            UnstructuredPacked::new(shape.0, shape.1, bitmask, values).map(Packed::Unstructured)
        }
        Pattern::Balanced { block } | Pattern::NOfM { of: block, .. } => {
            let kept = kept.ok_or_else(|| arrays.lacks("`kept`, the kept weights of a block"))?;
            let indices = arrays.bytes("indices")?;
            BalancedPacked::new(shape, block, kept, values, indices).map(Packed::Balanced)
        }
        Pattern::Hinm { vector, keep, of } => {
            let order = RowOrder::new(arrays.ids("row_order")?).map_err(|e| arrays.fail(e))?;
            let (columns, indices) = (arrays.ids("columns")?, arrays.bytes("indices")?);
            let inner = (keep, of);
            HierarchicalPacked::new(shape, vector, inner, columns, order, values, indices)
                .map(Packed::Hierarchical)
        }
        Pattern::VectorWise { vector, .. }
        | Pattern::ShflBw { vector, .. }
        | Pattern::BlockWise { block: vector } => {
            let columns = arrays.ids("columns")?;
            let mut optional = |suffix: &str| {
                if arrays.has(suffix) { arrays.ids(suffix).map(Some) } else { Ok(None) }
            };
            let (offsets, order) = (optional("group_offsets")?, optional("row_order")?);
            let order = order.map(RowOrder::new).transpose().map_err(|e| arrays.fail(e))?;
            GroupedPacked::new(shape, vector, columns, offsets, order, values).map(Packed::Grouped)
        }
    };
    let mut packed = packed.map_err(|error| arrays.fail(error))?;
    packed.check(pattern).map_err(|error| arrays.fail(error))?;
    Ok(match value_type {
        ValueType::Float(float) => (packed, float, None),
        ValueType::Int8 => {
            let scales = arrays.scales(shape.0)?;
            packed.map_values(|row, integer| integer * scales[row]);
            (packed, FloatType::F32, Some(scales))
        }
    })
}
