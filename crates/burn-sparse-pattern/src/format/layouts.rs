//! Arrays that store a packed layout on disk.

use safetensors::Dtype;

use super::{Array, FloatType, FormatError, PackedEntry, Scales};
use crate::{
    BalancedPacked, GroupedPacked, HierarchicalPacked, Packed, Pattern, RowOrder,
    UnstructuredPacked,
};

/// Returns the arrays of a packed parameter with the suffixes of their names.
pub(super) fn arrays(entry: &PackedEntry) -> Vec<(&'static str, Array<'_>)> {
    let values = |shape, packed| match &entry.scales {
        Some(scales) => scales.array(shape, entry.packed.integers(scales)),
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
        arrays.push(("scales", scales.as_array()));
    }
    arrays
}

fn row_order(order: &RowOrder) -> Array<'_> {
    Array::ids(vec![order.rows()], order.as_slice(), order.rows())
}

/// Access to the arrays of one parameter, each in the type that its layout requires.
pub(super) trait Arrays {
    /// Reads this many values, integers without their scales, and their type if they are floats.
    fn values(&mut self, count: usize) -> Result<(Vec<f32>, Option<FloatType>), FormatError>;
    /// Reads the scales of integers of a matrix of this size.
    fn scales(&mut self, size: (usize, usize), is_packed: bool) -> Result<Scales, FormatError>;
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
) -> Result<(Packed, FloatType, Option<Scales>), FormatError> {
    let (packed, float) = match *pattern {
        Pattern::Unstructured {} => {
            let bitmask = arrays.bytes("bitmask")?;
            let count = bitmask.iter().map(|byte| byte.count_ones() as usize).sum();
            let (values, float) = arrays.values(count)?;
            let packed = UnstructuredPacked::new(shape.0, shape.1, bitmask, values);
            (packed.map(Packed::Unstructured), float)
        }
        Pattern::Balanced { block } | Pattern::NOfM { of: block, .. } => {
            let kept = kept.ok_or_else(|| arrays.lacks("`kept`, the kept weights of a block"))?;
            let indices = arrays.bytes("indices")?;
            let (values, float) = arrays.values(indices.len())?;
            let packed = BalancedPacked::new(shape, block, kept, values, indices);
            (packed.map(Packed::Balanced), float)
        }
        Pattern::Hinm { vector, keep, of } => {
            let order = RowOrder::new(arrays.ids("row_order")?).map_err(|e| arrays.fail(e))?;
            let (columns, indices) = (arrays.ids("columns")?, arrays.bytes("indices")?);
            let (values, float) = arrays.values(indices.len())?;
            let inner = (keep, of);
            let packed =
                HierarchicalPacked::new(shape, vector, inner, columns, order, values, indices);
            (packed.map(Packed::Hierarchical), float)
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
            let (values, float) = arrays.values(columns.len().saturating_mul(vector))?;
            let packed = GroupedPacked::new(shape, vector, columns, offsets, order, values);
            (packed.map(Packed::Grouped), float)
        }
    };
    let mut packed = packed.map_err(|error| arrays.fail(error))?;
    packed.check(pattern).map_err(|error| arrays.fail(error))?;
    Ok(match float {
        Some(float) => (packed, float, None),
        None => {
            let scales = arrays.scales(shape, true)?;
            packed.map_values(|row, col, integer| scales.value(row, col, integer));
            (packed, FloatType::F32, Some(scales))
        }
    })
}
