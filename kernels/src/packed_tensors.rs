use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use burn_sparse_pattern::{
    BalancedPacked, GroupedPacked, Packed, PatternError, RowOrder, UnstructuredPacked,
};

use crate::flex::{Matrix, Weight};
use crate::layout::TILE_ROWS;
use crate::{Activation, Checked, Layout, Spec};

/// A packed weight on a device, in the layout of its kernels.
#[derive(Debug, Clone)]
pub struct PackedTensors {
    /// Outputs.
    pub rows: usize,
    /// Reduction.
    pub cols: usize,
    /// What the tensors hold.
    pub layout: Layout,
    /// The kept values.
    pub values: Tensor<2>,
    /// Column ids, or in-block columns as bytes.
    pub index: Tensor<1, Int>,
    /// Where groups or rows begin.
    pub offsets: Tensor<1, Int>,
    /// The row at every place.
    pub order: Tensor<1, Int>,
    /// What calls on these indices remember.
    pub checked: Checked,
}

impl PackedTensors {
    /// Uploads a packed matrix, once, in the order its kernels read.
    pub fn from_packed(packed: &Packed, device: &Device) -> Self {
        match packed {
            Packed::Grouped(packed) => Self::grouped(packed, device),
            Packed::Balanced(packed) => Self::balanced(packed, device),
            Packed::Unstructured(packed) => Self::rows(packed, device),
            // No kernel knows the inner pattern yet; the one for rows of any shape runs it.
            Packed::Hierarchical(_) => Self::rows(&packed.to_unstructured(), device),
        }
    }

    /// The same weight with values of this type. GPUs compute in it; the CPU streams half the bytes and
    /// computes in f32.
    #[must_use]
    pub fn cast(mut self, dtype: FloatDType) -> Self {
        self.values = self.values.cast(dtype);
        self
    }

    /// The static half of this weight.
    pub fn spec(&self, activation: Activation) -> Spec {
        let (rows, cols, layout) = (self.rows, self.cols, self.layout);
        let (features_major, kernel, checked) = (false, None, false);
        Spec { rows, cols, layout, activation, features_major, kernel, checked }
    }

    /// What the choice of a kernel depends on.
    pub(crate) fn matrix(&self) -> Matrix {
        let kept = self.values.shape().num_elements();
        Matrix { rows: self.rows, cols: self.cols, layout: self.layout, kept }
    }

    fn grouped(packed: &GroupedPacked, device: &Device) -> Self {
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
        }
    }

    fn balanced(packed: &BalancedPacked, device: &Device) -> Self {
        let (rows, per_row) = (packed.rows(), packed.kept_per_row());
        let padded = rows.div_ceil(TILE_ROWS) * TILE_ROWS;
        let (mut values, mut index) = (vec![0.0; padded * per_row], vec![0; padded * per_row]);
        for row in 0..rows {
            for slot in 0..per_row {
                let to = interleaved(row, slot, per_row);
                values[to] = packed.values()[row * per_row + slot];
                index[to] = packed.indices()[row * per_row + slot];
            }
        }
        Self {
            rows,
            cols: packed.cols(),
            layout: Layout::Balanced { block: packed.block(), kept: packed.kept() },
            values: floats(values, TILE_ROWS, device),
            index: bytes(index, device),
            offsets: ids(&[], device),
            order: ids(&[], device),
            checked: Checked::default(),
        }
    }

    fn rows(packed: &UnstructuredPacked, device: &Device) -> Self {
        let (mut columns, mut offsets) = (Vec::with_capacity(packed.values().len()), vec![0]);
        for row in 0..packed.rows() {
            columns.extend(packed.row_columns(row).map(|col| col as u32));
            offsets.push(columns.len() as u32);
        }
        Self {
            rows: packed.rows(),
            cols: packed.cols(),
            layout: Layout::Rows,
            values: floats(packed.values().to_vec(), 1, device),
            index: ids(&columns, device),
            offsets: ids(&offsets, device),
            order: ids(&[], device),
            checked: Checked::default(),
        }
    }

    /// The packed matrix on the host, checked.
    ///
    /// # Errors
    /// When the tensors contradict each other or the pattern.
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
                let at = |i: usize| interleaved(i / per_row, i % per_row, per_row);
                let all = 0..self.rows * per_row;
                let kept_values = all.clone().map(|i| values[at(i)]).collect();
                let indices = all.map(|i| index[at(i)]).collect();
                Packed::Balanced(BalancedPacked::new(shape, block, kept, kept_values, indices)?)
            }
            Layout::Rows => {
                let (columns, offsets) = (unsigned(&self.index), unsigned(&self.offsets));
                let width = self.cols.div_ceil(8);
                let mut bitmask = vec![0_u8; self.rows * width];
                let mut rising = Vec::with_capacity(values.len());
                for row in 0..self.rows {
                    // Kernels take the columns of a row in any order, a mask has but one.
                    let slots = offsets[row] as usize..offsets[row + 1] as usize;
                    let mut slots: Vec<usize> = slots.collect();
                    slots.sort_by_key(|&slot| columns[slot]);
                    for slot in slots {
                        bitmask[row * width + columns[slot] as usize / 8] |=
                            1 << (columns[slot] % 8);
                        rising.push(values[slot]);
                    }
                }
                let (rows, cols) = shape;
                Packed::Unstructured(UnstructuredPacked::new(rows, cols, bitmask, rising)?)
            }
        })
    }

    /// Kept weights of a row of a [`Layout::Balanced`]: a short last block may keep another number than the layout says.
    pub(crate) fn kept_per_row(&self) -> usize {
        self.values.dims()[0] / self.rows.div_ceil(TILE_ROWS)
    }

    /// Calls `each(row, column, index of the value)` for every kept weight, padding left out.
    ///
    /// # Panics
    /// When the tensors contradict each other.
    pub fn entries(&self, each: impl FnMut(usize, usize, usize)) {
        let checked = self.with_weight(|weight| weight.entries(0..weight.rows, each));
        if let Err(reason) = checked {
            panic!("packed weight: {reason}");
        }
    }

    /// Hands out the checked weight, its values replaced by zeros: positions are all that is wanted,
    /// the values themselves may be on any device and under autodiff.
    fn with_weight<R>(&self, use_it: impl FnOnce(&Weight<'_>) -> R) -> Result<R, String> {
        let int = |tensor: &Tensor<1, Int>| -> Vec<i32> {
            read(tensor.clone().into_data().convert::<i32>())
        };
        let (index, offsets, order) = (int(&self.index), int(&self.offsets), int(&self.order));
        let in_block: Vec<u8> = match self.layout {
            Layout::Balanced { .. } => read(self.index.clone().into_data().convert::<u8>()),
            _ => Vec::new(),
        };
        let values = vec![0.0; self.values.shape().num_elements()];
        let weight = Weight {
            rows: self.rows,
            cols: self.cols,
            layout: self.layout,
            values: &values,
            columns: &index,
            in_block: &in_block,
            offsets: &offsets,
            order: &order,
        };
        weight.check(false).map(|weight| use_it(&weight))
    }
}

/// Where a balanced row's slot stands in its tile of 16 rows.
fn interleaved(row: usize, slot: usize, per_row: usize) -> usize {
    ((row / TILE_ROWS) * per_row + slot) * TILE_ROWS + row % TILE_ROWS
}

fn floats(values: Vec<f32>, lanes: usize, device: &Device) -> Tensor<2> {
    let (len, shape) = (values.len(), [values.len() / lanes, lanes]);
    // Uploaded flat: a matrix may get padded rows on a GPU, which every forward pass would copy away.
    Tensor::<1>::from_data(TensorData::new(values, [len]), device).reshape(shape)
}

fn ids(ids: &[u32], device: &Device) -> Tensor<1, Int> {
    let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
    let shape = [ids.len()];
    Tensor::from_data(TensorData::new(ids, shape), (device, DType::I32))
}

fn bytes(bytes: Vec<u8>, device: &Device) -> Tensor<1, Int> {
    let shape = [bytes.len()];
    Tensor::from_data(TensorData::new(bytes, shape), (device, DType::U8))
}

/// The elements of data that its caller has converted to `E`: it cannot be of another type.
fn read<E: burn::tensor::Element>(data: TensorData) -> Vec<E> {
    data.try_into_vec().expect("converted to this type")
}
