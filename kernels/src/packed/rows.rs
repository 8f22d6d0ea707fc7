use burn::tensor::Device;
use burn_sparse_cpu::TILE_ROWS;
use burn_sparse_pattern::{PatternError, UnstructuredPacked};

use super::tensors::{floats, ids};
use super::{Checked, OnCpu, PackedTensors};
use crate::Layout;

impl PackedTensors {
    /// Uploads an unstructured matrix, in tiles of rows that keep nearly the same number of weights.
    pub(super) fn from_rows(packed: &UnstructuredPacked, device: &Device) -> Self {
        let (rows, cols) = (packed.rows(), packed.cols());
        let mut starts = vec![0];
        for row in 0..rows {
            starts.push(starts[row] + packed.row_columns(row).count());
        }
        let kept = |row: usize| starts[row + 1] - starts[row];
        let mut order: Vec<usize> = (0..rows).collect();
        order.sort_by_key(|&row| std::cmp::Reverse(kept(row)));
        let mut offsets = vec![0];
        for tile in order.chunks(TILE_ROWS) {
            offsets.push(offsets[offsets.len() - 1] + kept(tile[0]));
        }
        let stored = offsets[offsets.len() - 1] * TILE_ROWS;
        // Padding points past the last column.
        let (mut values, mut columns) = (vec![0.0; stored], vec![cols as u32; stored]);
        for (place, &row) in order.iter().enumerate() {
            let first = offsets[place / TILE_ROWS] * TILE_ROWS + place % TILE_ROWS;
            let entries =
                packed.row_columns(row).zip(&packed.values()[starts[row]..starts[row + 1]]);
            for (slot, (col, &value)) in entries.enumerate() {
                values[first + slot * TILE_ROWS] = value;
                columns[first + slot * TILE_ROWS] = col as u32;
            }
        }
        let [offsets, order] =
            [offsets, order].map(|ids| ids.into_iter().map(|id| id as u32).collect::<Vec<_>>());
        Self {
            rows,
            cols,
            layout: Layout::Rows,
            values: floats(values, TILE_ROWS, device),
            index: ids(&columns, device),
            offsets: ids(&offsets, device),
            order: ids(&order, device),
            checked: Checked::default(),
            on_cpu: OnCpu::default(),
        }
    }

    /// Returns the unstructured matrix of these rows, given its stored values.
    pub(super) fn to_rows(&self, values: &[f32]) -> Result<UnstructuredPacked, PatternError> {
        let width = self.cols.div_ceil(8);
        let mut bitmask = vec![0_u8; self.rows * width];
        let mut kept = Vec::with_capacity(values.len());
        self.entries(|row, col, at| {
            bitmask[row * width + col / 8] |= 1 << (col % 8);
            kept.push((row, col, values[at]));
        });
        // Kernels accept rows and their columns in any order, but a mask has only one.
        kept.sort_unstable_by_key(|&(row, col, _)| (row, col));
        let values = kept.into_iter().map(|(.., value)| value).collect();
        UnstructuredPacked::new(self.rows, self.cols, bitmask, values)
    }
}
