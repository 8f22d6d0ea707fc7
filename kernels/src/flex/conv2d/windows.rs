use std::ops::Range;

use super::line;
use crate::Window;

/// What the taps of a kernel see of a picture, one row for every input channel and tap, one column for every output
/// pixel: where it lies in the picture, found once for all channels and pictures.
pub(super) struct Windows {
    /// Output pixels side by side that see pixels of one line of a channel.
    runs: Vec<Run>,
    channels: usize,
    /// Elements of a channel of the picture.
    plane: usize,
    /// Taps of the kernel.
    taps: usize,
    /// Output pixels.
    pixels: usize,
    /// From one output pixel to the next, in the picture.
    stride: usize,
}

struct Run {
    tap: usize,
    /// The first output pixel.
    to: usize,
    len: usize,
    /// What it sees, in the channel.
    from: usize,
}

impl Windows {
    /// Of pictures `[channels, height, width]`, for these lines of output pixels.
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

    /// Rows: input channel, kernel row, kernel column.
    pub(super) fn rows(&self) -> usize {
        self.channels * self.taps
    }

    /// Output pixels of a picture, in these lines.
    pub(super) fn pixels(&self) -> usize {
        self.pixels
    }

    /// Elements of a picture.
    pub(super) fn picture(&self) -> usize {
        self.channels * self.plane
    }

    /// Writes what is seen of the picture `x` into `windows`, whose rows are `width` wide, from column `at` of each. What
    /// lies beyond the picture's edges is not written: it stays zero.
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

    /// The other way round: adds what each tap has seen to where it saw it.
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

/// Which of these places in a line of output see a pixel, of a picture this wide, that lies so far `right` of where
/// their windows begin; and the pixel that the first of them sees.
pub(super) fn inside(
    window: &Window,
    width: usize,
    right: usize,
    places: usize,
) -> (Range<usize>, usize) {
    let (stride, before) = (window.stride[1], window.padding[1].0);
    // The first place that is right of the picture, and the first that is not left of it.
    let end = (width + before).saturating_sub(right).div_ceil(stride).min(places);
    let begin = before.saturating_sub(right).div_ceil(stride).min(end);
    (begin..end, (begin * stride + right).saturating_sub(before))
}
