use std::ops::Range;

use crate::Window;
use crate::conv2d::{inside, line};

/// Layout of an unfolded image (im2col): one row per input channel and tap, one column per output pixel. The positions
/// in the image are computed once for all channels and images.
pub(super) struct Windows {
    /// Runs of adjacent output pixels that read pixels of one line of a channel.
    runs: Vec<Run>,
    channels: usize,
    /// Number of elements in a channel of the image.
    plane: usize,
    /// Number of taps of the kernel.
    taps: usize,
    /// Number of output pixels.
    pixels: usize,
    /// Distance in the image from the input of one output pixel to that of the next.
    stride: usize,
}

struct Run {
    tap: usize,
    /// First output pixel.
    to: usize,
    len: usize,
    /// Position in the channel of the pixel that it reads.
    from: usize,
}

impl Windows {
    /// Computes the layout for images `[channels, height, width]` and these lines of output pixels.
    pub(super) fn new(
        window: &Window,
        [channels, height, width]: [usize; 3],
        lines: Range<usize>,
    ) -> Self {
        let Window { kernel, stride, dilation, padding } = *window;
        let [_, columns] = window.output([height, width]);
        let taps = kernel[0] * kernel[1];
        let mut runs = Vec::new();
        for tap in 0..taps {
            let [down, right] = [tap / kernel[1] * dilation[0], tap % kernel[1] * dilation[1]];
            let (inside, column) = inside(window, width, right, columns);
            if inside.is_empty() {
                continue;
            }
            for (number, row) in lines.clone().enumerate() {
                let line = (row * stride[0] + down).checked_sub(padding[0].0);
                if let Some(line) = line.filter(|&line| line < height) {
                    runs.push(Run {
                        tap,
                        to: number * columns + inside.start,
                        len: inside.len(),
                        from: line * width + column,
                    });
                }
            }
        }
        let (plane, pixels) = (height * width, lines.len() * columns);
        Self { runs, channels, plane, taps, pixels, stride: stride[1] }
    }

    /// Returns the number of rows, ordered by input channel, kernel row, and kernel column.
    pub(super) fn rows(&self) -> usize {
        self.channels * self.taps
    }

    /// Returns the number of output pixels of an image in these lines.
    pub(super) fn pixels(&self) -> usize {
        self.pixels
    }

    /// Returns the number of elements in an image.
    pub(super) fn picture(&self) -> usize {
        self.channels * self.plane
    }

    /// Unfolds the image `x` into `windows`, whose rows are `width` wide, starting at column `at` of each row. Elements
    /// beyond the edges of the image are not written and stay zero.
    pub(super) fn unfold(&self, x: &[f32], windows: &mut [f32], width: usize, at: usize) {
        let channels = windows.chunks_mut(self.taps * width).zip(x.chunks_exact(self.plane));
        for (windows, x) in channels {
            for run in &self.runs {
                let windows = &mut windows[run.tap * width + at + run.to..][..run.len];
                let x = &x[run.from..];
                line::every(self.stride, x, windows);
            }
        }
    }

    /// Adjoint of [`Self::unfold`]: adds each element of `windows` to the pixel that it was read from.
    pub(super) fn fold(&self, windows: &[f32], x: &mut [f32], width: usize, at: usize) {
        let channels = windows.chunks(self.taps * width).zip(x.chunks_exact_mut(self.plane));
        for (windows, x) in channels {
            for run in &self.runs {
                let windows = &windows[run.tap * width + at + run.to..][..run.len];
                let x = &mut x[run.from..];
                line::add_to_every(self.stride, windows, x);
            }
        }
    }
}
