//! The arrays of a packed parameter.

use burn_sparse_pattern::{
    BalancedPacked, GroupedPacked, HierarchicalPacked, Packed, Pattern, PatternError, RowOrder,
    UnstructuredPacked,
};
use safetensors::Dtype;

use crate::modules::View;

/// A tensor as safetensors holds it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Array {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl Array {
    pub(crate) fn floats(shape: Vec<usize>, values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { dtype: Dtype::F32, shape, bytes }
    }

    fn bytes(shape: Vec<usize>, bytes: Vec<u8>) -> Self {
        Self { dtype: Dtype::U8, shape, bytes }
    }

    /// Ids below `limit` in the narrowest type.
    fn ids(ids: &[u32], limit: usize) -> Self {
        let narrow = limit <= 1 << 16;
        let bytes = ids
            .iter()
            .flat_map(|id| id.to_le_bytes().into_iter().take(if narrow { 2 } else { 4 }))
            .collect();
        let dtype = if narrow { Dtype::U16 } else { Dtype::U32 };
        Self { dtype, shape: vec![ids.len()], bytes }
    }

    pub(crate) fn to_floats(&self) -> Result<Vec<f32>, String> {
        self.expect(&[Dtype::F32])?;
        Ok(self
            .bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect())
    }

    fn to_ids(&self) -> Result<Vec<u32>, String> {
        self.expect(&[Dtype::U16, Dtype::U32])?;
        Ok(match self.dtype {
            Dtype::U16 => self
                .bytes
                .chunks_exact(2)
                .map(|b| u16::from_le_bytes([b[0], b[1]]).into())
                .collect(),
            _ => {
                let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                self.bytes.chunks_exact(4).map(word).collect()
            }
        })
    }

    fn expect(&self, dtypes: &[Dtype]) -> Result<(), String> {
        if dtypes.contains(&self.dtype) {
            Ok(())
        } else {
            Err(format!("type is {:?}, expected {dtypes:?}", self.dtype))
        }
    }
}

/// The arrays of a packed parameter, by the suffix of their names.
pub(crate) fn write(packed: &Packed) -> Vec<(&'static str, Array)> {
    match packed {
        Packed::Unstructured(packed) => {
            let (rows, width) = (packed.rows(), packed.cols().div_ceil(8));
            vec![
                ("values", Array::floats(vec![packed.values().len()], packed.values())),
                ("bitmask", Array::bytes(vec![rows, width], packed.bitmask())),
            ]
        }
        Packed::Balanced(packed) => {
            let shape = vec![packed.rows(), packed.kept_per_row()];
            vec![
                ("values", Array::floats(shape.clone(), packed.values())),
                ("indices", Array::bytes(shape, packed.indices().to_vec())),
            ]
        }
        Packed::Grouped(packed) => {
            let shape = vec![packed.columns().len(), packed.vector()];
            let mut arrays = vec![
                ("values", Array::floats(shape, packed.values())),
                ("columns", Array::ids(packed.columns(), packed.cols())),
            ];
            if packed.equal_count().is_none() {
                arrays.push(("group_offsets", Array::ids(packed.offsets(), usize::MAX)));
            }
            if let Some(order) = packed.row_order() {
                arrays.push(("row_order", Array::ids(order.as_slice(), packed.rows())));
            }
            arrays
        }
        Packed::Hierarchical(packed) => {
            let (shape, (_, of)) = (vec![packed.rows(), packed.kept_per_row()], packed.keep_of());
            let mut columns = Array::ids(packed.columns(), packed.cols());
            columns.shape = vec![packed.columns().len() / of, of];
            vec![
                ("values", Array::floats(shape.clone(), packed.values())),
                ("indices", Array::bytes(shape, packed.indices().to_vec())),
                ("columns", columns),
                ("row_order", Array::ids(packed.row_order().as_slice(), packed.rows())),
            ]
        }
    }
}

/// Why arrays could not be read: the suffix of the array at fault, and the reason.
pub(crate) enum Fault {
    Array(&'static str, String),
    Pattern(PatternError),
}

impl From<PatternError> for Fault {
    fn from(error: PatternError) -> Self {
        Self::Pattern(error)
    }
}

/// Reads the arrays of a packed parameter; `take` hands out an array by its suffix.
pub(crate) fn read(
    view: &View,
    pattern: &Pattern,
    kept: Option<usize>,
    take: impl Fn(&str) -> Option<Array>,
) -> Result<Packed, Fault> {
    let (rows, cols) = (view.rows(), view.cols());
    let need =
        |name: &'static str| take(name).ok_or_else(|| Fault::Array(name, "is missing".into()));
    let at = |name: &'static str| move |reason: String| Fault::Array(name, reason);
    let values = need("values")?.to_floats().map_err(at("values"))?;
    let bytes = |name: &'static str| -> Result<Vec<u8>, Fault> {
        let array = need(name)?;
        array.expect(&[Dtype::U8]).map_err(at(name))?;
        Ok(array.bytes)
    };
    let optional_ids = |name: &'static str| -> Result<Option<Vec<u32>>, Fault> {
        take(name).map(|array| array.to_ids().map_err(at(name))).transpose()
    };
    Ok(match *pattern {
        Pattern::Unstructured {} => {
            Packed::Unstructured(UnstructuredPacked::new(rows, cols, &bytes("bitmask")?, values)?)
        }
        Pattern::Balanced { block } | Pattern::NOfM { of: block, .. } => {
            let kept =
                kept.ok_or_else(|| Fault::Array("values", "metadata lacks `kept`".into()))?;
            let indices = bytes("indices")?;
            Packed::Balanced(BalancedPacked::new((rows, cols), block, kept, values, indices)?)
        }
        Pattern::Hinm { vector, keep, of } => {
            let ids = |name: &'static str| need(name)?.to_ids().map_err(at(name));
            let (shape, order) = ((rows, cols), RowOrder::new(ids("row_order")?)?);
            let (columns, indices) = (ids("columns")?, bytes("indices")?);
            let inner = (keep, of);
            Packed::Hierarchical(HierarchicalPacked::new(
                shape, vector, inner, columns, order, values, indices,
            )?)
        }
        Pattern::VectorWise { vector, .. }
        | Pattern::ShflBw { vector, .. }
        | Pattern::BlockWise { block: vector } => {
            let columns = need("columns")?.to_ids().map_err(at("columns"))?;
            let offsets = optional_ids("group_offsets")?;
            let order = match optional_ids("row_order")? {
                Some(order) => Some(RowOrder::new(order)?),
                None => None,
            };
            let shape = (rows, cols);
            Packed::Grouped(GroupedPacked::new(shape, vector, columns, offsets, order, values)?)
        }
    })
}
