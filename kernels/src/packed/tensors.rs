use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use burn_sparse_cpu::{PackedWeight, Parts, TILE_ROWS, Values};
use burn_sparse_pattern::{BalancedPacked, GroupedPacked, Packed, PatternError, RowOrder};

use super::{OnCpu, Spec};
use crate::{Activation, Address, Layout, Memo, PackedShape};

/// A packed weight on a device, in the order in which its kernels read it.
#[derive(Debug, Clone)]
pub struct PackedTensors {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) layout: Layout,
    /// Kept values.
    pub(crate) values: Tensor<2>,
    /// Column ids, or in-block columns as bytes.
    pub(crate) index: Tensor<1, Int>,
    /// Start of every group or tile.
    pub(crate) offsets: Tensor<1, Int>,
    /// Row at every position.
    pub(crate) order: Tensor<1, Int>,
    pub(crate) checked: Checked,
    pub(crate) on_cpu: OnCpu,
}

/// Columns up to which neighbouring blocks are merged into one that keeps the same weights, because kernels start anew with
/// every block, and their tables hold this many inputs.
const MERGED_BLOCK: usize = 32;

/// Record that the indices of a packed weight are in bounds, so that only the first of many calls on the CPU checks them.
/// At 1024×1024 and one token the check takes a fifth of the call. Clones share the record.
#[derive(Debug, Clone, Default)]
pub struct Checked(pub(super) Memo<(usize, usize, Layout)>);

impl PackedTensors {
    /// Assembles a weight from its parts: the kept values `[slots, lanes, 1, ...]`, and the index tensors `[index, offsets,
    /// order]` of its layout. Kernels of the CPU check them on first use; those of a GPU
    /// trust them.
    pub fn from_parts<const D: usize>(
        (rows, cols): (usize, usize),
        layout: Layout,
        values: Tensor<D>,
        [index, offsets, order]: [Tensor<1, Int>; 3],
        checked: Checked,
    ) -> Self {
        let values = match D {
            // A reshape would change nothing, and takes as long as a small product.
            2 => Tensor::from_dispatch(values.into_dispatch()),
            _ => {
                let [slots, lanes] = [values.dims()[0], values.dims()[1]];
                values.reshape([slots, lanes])
            }
        };
        let on_cpu = OnCpu::default();
        Self { rows, cols, layout, values, index, offsets, order, checked, on_cpu }
    }

    /// Splits a weight into its layout, kept values, index tensors `[index, offsets, order]`, and record of checks.
    pub fn into_parts(self) -> (Layout, Tensor<2>, [Tensor<1, Int>; 3], Checked) {
        (self.layout, self.values, [self.index, self.offsets, self.order], self.checked)
    }

    /// Returns the number of outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the size of the reduction.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the kept values, `[slots, lanes]`.
    pub fn values(&self) -> &Tensor<2> {
        &self.values
    }

    /// Uploads a packed matrix.
    pub fn from_packed(packed: &Packed, device: &Device) -> Self {
        match packed {
            Packed::Grouped(packed) => Self::from_grouped(packed, device),
            Packed::Balanced(packed) => Self::from_balanced(packed, device),
            Packed::Unstructured(packed) => Self::from_rows(packed, device),
            // All rows keep the same number of weights: their tiles have no padding.
            Packed::Hierarchical(_) => Self::from_rows(&packed.to_unstructured(), device),
        }
    }

    /// Casts the values. GPUs compute in this type; the CPU streams half the bytes and computes in f32.
    #[must_use]
    pub fn cast(mut self, dtype: FloatDType) -> Self {
        self.values = self.values.cast(dtype);
        self.on_cpu = OnCpu::default();
        self
    }

    /// Returns the shape.
    pub fn shape(&self) -> PackedShape {
        let stored = self.values.shape().num_elements();
        PackedShape::new(self.rows, self.cols, self.layout, stored)
    }

    /// Returns the description of a product with this weight, for the backend to choose a kernel.
    pub(crate) fn spec(&self, activation: Activation) -> Spec {
        Spec::new(self.shape(), activation)
    }

    /// Returns `true` if these indices are known to be in bounds.
    pub(crate) fn is_checked(&self) -> bool {
        // In-block bytes reach no further than the padding that kernels add: there is nothing to remember.
        if matches!(self.layout, Layout::Balanced { .. }) {
            return false;
        }
        let Some(addresses) = self.addresses() else { return false };
        self.checked.0.get(&addresses) == Some((self.rows, self.cols, self.layout))
    }

    /// Records that a kernel has checked these indices.
    pub(crate) fn set_checked(&self) {
        if matches!(self.layout, Layout::Balanced { .. }) {
            return;
        }
        if let Some(addresses) = self.addresses() {
            self.checked.0.set(addresses, (self.rows, self.cols, self.layout));
        }
    }

    fn addresses(&self) -> Option<[Address; 3]> {
        let [index, offsets, order] = [&self.index, &self.offsets, &self.order];
        Some([Address::of_ints(index)?, Address::of_ints(offsets)?, Address::of_ints(order)?])
    }

    fn from_grouped(packed: &GroupedPacked, device: &Device) -> Self {
        let vector = packed.vector();
        let identity = RowOrder::identity(packed.rows());
        let order = packed.row_order().unwrap_or(&identity);
        Self {
            rows: packed.rows(),
            cols: packed.cols(),
            layout: Layout::Grouped { vector },
            values: floats(packed.values().to_vec(), vector, device),
            index: ids(packed.columns(), device),
            offsets: ids(packed.offsets(), device),
            order: ids(order.as_slice(), device),
            checked: Checked::default(),
            on_cpu: OnCpu::default(),
        }
    }

    /// Uploads a balanced matrix, with blocks merged up to [`MERGED_BLOCK`] columns.
    fn from_balanced(packed: &BalancedPacked, device: &Device) -> Self {
        let (rows, per_row) = (packed.rows(), packed.kept_per_row());
        let (block, kept) = (packed.block(), packed.kept());
        let (together, blocks) = ((MERGED_BLOCK / block).max(1), packed.cols().div_ceil(block));
        let padded = rows.div_ceil(TILE_ROWS) * TILE_ROWS;
        let (mut values, mut index) = (vec![0.0; padded * per_row], vec![0; padded * per_row]);
        for row in 0..rows {
            for slot in 0..per_row {
                let to = interleaved(row, slot, per_row);
                // If full blocks keep no weights, all kept weights are in the shorter last block.
                let of = slot.checked_div(kept).map_or(blocks - 1, |of| of.min(blocks - 1));
                let in_block = packed.indices()[row * per_row + slot];
                values[to] = packed.values()[row * per_row + slot];
                index[to] = (of % together * block) as u8 + in_block;
            }
        }
        Self {
            rows,
            cols: packed.cols(),
            layout: Layout::Balanced { block: together * block, kept: together * kept },
            values: floats(values, TILE_ROWS, device),
            index: bytes(index, device),
            offsets: ids(&[], device),
            order: ids(&[], device),
            checked: Checked::default(),
            on_cpu: OnCpu::default(),
        }
    }

    /// Downloads the packed matrix and checks it. Blocks of a balanced matrix stay merged, as they were uploaded.
    ///
    /// # Errors
    /// Returns an error when the tensors contradict each other.
    pub fn to_packed(&self) -> Result<Packed, PatternError> {
        self.with_weight(|_| ()).map_err(|found| PatternError::Packed {
            layout: "kernel",
            what: "a tensor".into(),
            found,
            expected: "tensors that fit each other".into(),
        })?;
        let shape = (self.rows, self.cols);
        let values: Vec<f32> = read(self.values.clone().into_data().convert::<f32>());
        let unsigned = |tensor: &Tensor<1, Int>| -> Vec<u32> {
            read(tensor.clone().into_data().convert::<u32>())
        };
        Ok(match self.layout {
            Layout::Grouped { vector } => {
                let order = RowOrder::new(unsigned(&self.order))?;
                let moved = order != RowOrder::identity(self.rows);
                let (columns, offsets) = (unsigned(&self.index), unsigned(&self.offsets));
                let order = moved.then_some(order);
                Packed::Grouped(GroupedPacked::new(
                    shape,
                    vector,
                    columns,
                    Some(offsets),
                    order,
                    values,
                )?)
            }
            Layout::Balanced { block, kept } => {
                let index: Vec<u8> = read(self.index.clone().into_data().convert::<u8>());
                let per_row = self.kept_per_row();
                // Kernels count by whole blocks; a row that is shorter than a block keeps fewer.
                let kept = if self.cols < block { per_row } else { kept };
                let at = |i: usize| interleaved(i / per_row, i % per_row, per_row);
                let all = 0..self.rows * per_row;
                let kept_values = all.clone().map(|i| values[at(i)]).collect();
                let indices = all.map(|i| index[at(i)]).collect();
                Packed::Balanced(BalancedPacked::new(shape, block, kept, kept_values, indices)?)
            }
            Layout::Rows => Packed::Unstructured(self.to_rows(&values)?),
        })
    }

    /// Returns the number of kept weights per row of a [`Layout::Balanced`], whose short last block may keep a
    /// different number than the layout says.
    pub(crate) fn kept_per_row(&self) -> usize {
        self.values.dims()[0] / self.rows.div_ceil(TILE_ROWS)
    }

    /// Calls `each(row, column, index of the value)` for every kept weight, without padding.
    ///
    /// # Panics
    /// Panics if the tensors are inconsistent.
    pub fn entries(&self, each: impl FnMut(usize, usize, usize)) {
        let checked = self.with_weight(|weight| weight.entries(each));
        if let Err(reason) = checked {
            panic!("packed weight: {reason}");
        }
    }

    /// Calls `use_it` with the checked weight, whose values are replaced by zeros: only positions matter, and the values may
    /// be on any device and tracked by autodiff.
    fn with_weight<R>(&self, use_it: impl FnOnce(&PackedWeight<'_>) -> R) -> Result<R, String> {
        let int = |tensor: &Tensor<1, Int>| -> Vec<i32> {
            read(tensor.clone().into_data().convert::<i32>())
        };
        let (index, offsets, order) = (int(&self.index), int(&self.offsets), int(&self.order));
        let in_block: Vec<u8> = match self.layout {
            Layout::Balanced { .. } => read(self.index.clone().into_data().convert::<u8>()),
            _ => Vec::new(),
        };
        let values = vec![0.0; self.values.shape().num_elements()];
        let weight = Parts {
            rows: self.rows,
            cols: self.cols,
            layout: self.layout,
            values: Values::F32(&values),
            columns: &index,
            in_block: &in_block,
            offsets: &offsets,
            order: &order,
        };
        weight.check().map(|weight| use_it(&weight))
    }
}

/// Returns the position of a slot of a balanced row in its tile of 16 rows.
fn interleaved(row: usize, slot: usize, per_row: usize) -> usize {
    ((row / TILE_ROWS) * per_row + slot) * TILE_ROWS + row % TILE_ROWS
}

pub(super) fn floats(values: Vec<f32>, lanes: usize, device: &Device) -> Tensor<2> {
    let (len, shape) = (values.len(), [values.len() / lanes, lanes]);
    // Uploaded flat: a GPU may pad the rows of a matrix, and every forward pass would copy them.
    Tensor::<1>::from_data(TensorData::new(values, [len]), device).reshape(shape)
}

pub(super) fn ids(ids: &[u32], device: &Device) -> Tensor<1, Int> {
    let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
    let shape = [ids.len()];
    Tensor::from_data(TensorData::new(ids, shape), (device, DType::I32))
}

fn bytes(bytes: Vec<u8>, device: &Device) -> Tensor<1, Int> {
    let shape = [bytes.len()];
    Tensor::from_data(TensorData::new(bytes, shape), (device, DType::U8))
}

/// Returns the elements of data that the caller has converted to `E`; this cannot fail.
fn read<E: burn::tensor::Element>(data: TensorData) -> Vec<E> {
    data.try_into_vec().expect("converted to this type")
}
