use burn::tensor::Tensor;
use burn_sparse_cpu::TILE_ROWS;

use super::{Checked, OnCpu, PackedTensors};
use crate::Layout;

impl PackedTensors {
    /// Stacks the rows of all `parts` into one weight, so that layers that read the same input run as one. The gradient of
    /// its values flows back to the parts.
    ///
    /// Returns `None` if the parts are packed differently, or if the rows of any part but the last do not fill whole
    /// groups or tiles.
    #[must_use]
    pub fn stack(parts: &[Self]) -> Option<Self> {
        let (first, last) = (parts.first()?, parts.len() - 1);
        let unit = match first.layout {
            Layout::Grouped { vector } => vector,
            Layout::Balanced { .. } | Layout::Rows => TILE_ROWS,
        };
        let per_row = |part: &Self| match part.layout {
            Layout::Balanced { .. } => Some(part.kept_per_row()),
            Layout::Grouped { .. } | Layout::Rows => None,
        };
        let fit = parts.iter().enumerate().all(|(at, part)| {
            (part.cols, part.layout, per_row(part)) == (first.cols, first.layout, per_row(first))
                && part.values.dtype() == first.values.dtype()
                && (at == last || part.rows.is_multiple_of(unit))
        });
        if !fit {
            return None;
        }
        let (mut rows, mut slots) = (0, 0);
        let [mut offsets, mut orders] = [Vec::new(), Vec::new()];
        for part in parts {
            if !matches!(first.layout, Layout::Balanced { .. }) {
                // The first offset of a part equals the last one of the previous part.
                let begin = usize::from(!offsets.is_empty());
                let count = part.offsets.dims()[0] - begin;
                let shifted = part.offsets.clone().narrow(0, begin, count);
                offsets.push(shifted.add_scalar(slots as i32));
                orders.push(part.order.clone().add_scalar(rows as i32));
            }
            rows += part.rows;
            slots += part.values.dims()[0];
        }
        let together = |tensors: Vec<_>, empty: &Tensor<1, _>| match tensors.is_empty() {
            true => empty.clone(),
            false => Tensor::cat(tensors, 0),
        };
        Some(Self {
            rows,
            cols: first.cols,
            layout: first.layout,
            values: Tensor::cat(parts.iter().map(|part| part.values.clone()).collect(), 0),
            index: Tensor::cat(parts.iter().map(|part| part.index.clone()).collect(), 0),
            offsets: together(offsets, &first.offsets),
            order: together(orders, &first.order),
            checked: Checked::default(),
            on_cpu: OnCpu::default(),
        })
    }
}
