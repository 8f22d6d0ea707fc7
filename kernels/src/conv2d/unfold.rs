use burn::tensor::ops::PadMode;
use burn::tensor::{Tensor, s};

use crate::Window;

/// Unfolds `[batch, in, height, width]` to `[batch, height', width', kernel row · kernel column · in]`.
pub(super) fn unfold(x: Tensor<4>, window: &Window) -> Tensor<4> {
    let Window { kernel, stride, dilation, padding } = *window;
    let [_, _, height, width] = x.dims();
    let [rows, columns] = window.output([height, width]);
    let x = match padding {
        [(0, 0), (0, 0)] => x,
        _ => x.pad(padding, PadMode::Constant(0.0)),
    };
    let x = x.permute([0, 2, 3, 1]);
    let taps = (0..kernel[0]).flat_map(|row| (0..kernel[1]).map(move |column| [row, column]));
    let taps = taps.map(|[row, column]| {
        let (top, left) = (row * dilation[0], column * dilation[1]);
        let (bottom, right) =
            (top + (rows - 1) * stride[0] + 1, left + (columns - 1) * stride[1] + 1);
        let (down, across) = (stride[0] as isize, stride[1] as isize);
        x.clone().slice(s![.., top..bottom;down, left..right;across, ..])
    });
    Tensor::cat(taps.collect(), 3)
}
