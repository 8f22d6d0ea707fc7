use burn_sparse_kernels::Window;

/// Returns the windows of an image `[channels, height, width]` that a convolution reads, one row for each output pixel; columns
/// are kernel by channels with the channel varying fastest, as in [`View::Conv`](burn_sparse_pattern::format::View::Conv).
pub(super) fn unfold(
    image: &[f32],
    [channels, height, width]: [usize; 3],
    window: Window,
) -> Vec<f32> {
    let [rows, cols] = window.output([height, width]);
    let [kernel_rows, kernel_cols] = window.kernel;
    let mut windows = Vec::with_capacity(rows * cols * kernel_rows * kernel_cols * channels);
    // Position in the image, `None` in the padding.
    let place = |axis: usize, output: usize, tap: usize, size: usize| {
        let padded = output * window.stride[axis] + tap * window.dilation[axis];
        padded.checked_sub(window.padding[axis].0).filter(|&at| at < size)
    };
    for row in 0..rows {
        for col in 0..cols {
            for tap_row in 0..kernel_rows {
                for tap_col in 0..kernel_cols {
                    let y = place(0, row, tap_row, height);
                    let x = place(1, col, tap_col, width);
                    match y.zip(x) {
                        Some((y, x)) => windows.extend(
                            (0..channels).map(|channel| image[(channel * height + y) * width + x]),
                        ),
                        None => windows.extend(std::iter::repeat_n(0.0, channels)),
                    }
                }
            }
        }
    }
    windows
}
