use std::ops::Range;

use super::inside::inside;
use super::line;
use crate::Window;

/// Inputs of some lines of a convolution: one plane per channel and phase. A phase is an offset between two windows
/// that some tap reads.
///
/// If an image is padded with zeros and its lines are stored one after the other, the input of a tap is the image
/// itself, shifted. This holds for all output pixels of a line, and also for those of the next lines if outputs are
/// counted at the pitch of the padded image. Outputs that fall between two lines are meaningless. If the stride is
/// larger than 1, every phase has its own plane.
pub(crate) struct Planes<'a> {
    window: &'a Window,
    /// Shape of the image: channels, height, width.
    shape: [usize; 3],
    /// Phases that taps read, vertical and horizontal, in ascending order.
    phases: [Vec<usize>; 2],
    /// Floats from one line of a plane to the next.
    pub(crate) pitch: usize,
    /// Floats from one plane to the next.
    plane: usize,
}

impl<'a> Planes<'a> {
    /// Lays out the planes for up to `lines` lines of `columns` outputs each.
    pub(crate) fn new(window: &'a Window, shape: [usize; 3], lines: usize, columns: usize) -> Self {
        let Window { kernel, stride, dilation, .. } = *window;
        let phases = [0, 1].map(|axis| {
            let mut phases: Vec<usize> =
                (0..kernel[axis]).map(|tap| tap * dilation[axis] % stride[axis]).collect();
            phases.sort_unstable();
            phases.dedup();
            phases
        });
        let reach = [0, 1].map(|axis| (kernel[axis] - 1) * dilation[axis] / stride[axis]);
        let pitch = columns + reach[1];
        // Uses an odd number of cache lines: planes an even number apart would share a few sets of the cache.
        let plane = (((lines + reach[0]) * pitch).div_ceil(16) | 1) * 16;
        Self { window, shape, phases, pitch, plane }
    }

    /// Returns the number of floats in all planes.
    pub(crate) fn len(&self) -> usize {
        self.shape[0] * self.phases[0].len() * self.phases[1].len() * self.plane
    }

    /// Returns the number of elements in an image.
    pub(crate) fn picture(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns the offset in the planes at which the input of each column of the weight starts.
    pub(crate) fn offsets(&self) -> Vec<u32> {
        assert!(u32::try_from(self.len()).is_ok(), "a line of outputs sees more than 16 GB");
        let Window { kernel, stride, dilation, .. } = *self.window;
        let [down, across] = &self.phases;
        let at = |tap: usize, axis: usize, phases: &[usize]| {
            let place = tap * dilation[axis];
            let phase = phases.partition_point(|&phase| phase < place % stride[axis]);
            (phase, place / stride[axis])
        };
        let mut offsets = Vec::new();
        for tap in 0..kernel[0] * kernel[1] {
            let (row, line) = at(tap / kernel[1], 0, down);
            let (column, place) = at(tap % kernel[1], 1, across);
            let planes = (0..self.shape[0])
                .map(|channel| (channel * down.len() + row) * across.len() + column);
            let offset = |plane| (plane * self.plane + line * self.pitch + place) as u32;
            offsets.extend(planes.map(offset));
        }
        offsets
    }

    /// Returns the number of lines of a plane that outputs read past their own.
    pub(crate) fn reach(&self) -> usize {
        (self.window.kernel[0] - 1) * self.window.dilation[0] / self.window.stride[0]
    }

    /// Writes the inputs of these lines of outputs to `planes`, with zeros beyond the edges of the image.
    pub(super) fn fill(&self, picture: &[f32], lines: &Range<usize>, planes: &mut [f32]) {
        // Cleared at once instead of at the ends of every line, because many lines are short.
        planes.fill(0.0);
        self.place(picture, lines, 0, planes);
    }

    /// Writes the inputs of these lines of outputs to cleared `planes` from line `at` on.
    pub(crate) fn place(
        &self,
        picture: &[f32],
        lines: &Range<usize>,
        at: usize,
        planes: &mut [f32],
    ) {
        let stride = self.window.stride[1];
        self.for_each_line(lines, at, |from, to| {
            line::every(stride, &picture[from], &mut planes[to]);
        });
    }

    /// Adjoint of [`Self::place`]: adds `planes` to the pixels that their elements were read from.
    pub(crate) fn add_to(
        &self,
        picture: &mut [f32],
        lines: &Range<usize>,
        at: usize,
        planes: &[f32],
    ) {
        let stride = self.window.stride[1];
        self.for_each_line(lines, at, |from, to| {
            line::add_to_every(stride, &planes[to], &mut picture[from]);
        });
    }

    /// Calls `each(elements of the image, elements of the planes)` for every line of a channel that these lines of outputs read.
    #[inline(always)]
    fn for_each_line(
        &self,
        lines: &Range<usize>,
        at: usize,
        mut each: impl FnMut(Range<usize>, Range<usize>),
    ) {
        let [channels, height, width] = self.shape;
        let Window { stride, padding, .. } = *self.window;
        let [down, across] = &self.phases;
        let across: Vec<_> =
            across.iter().map(|&column| inside(self.window, width, column, self.pitch)).collect();
        let mut plane = 0;
        for channel in 0..channels {
            for row in down {
                for (inside, first) in &across {
                    for (number, line) in (lines.start..lines.end + self.reach()).enumerate() {
                        let line = (line * stride[0] + row).wrapping_sub(padding[0].0);
                        if line < height && !inside.is_empty() {
                            let from = (channel * height + line) * width;
                            let to = plane + (at + number) * self.pitch;
                            each(from + first..from + width, to + inside.start..to + inside.end);
                        }
                    }
                    plane += self.plane;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::part;

    /// Returns the pixel of an image `[height, width]` that this tap reads for an output pixel, by the definition of a
    /// convolution.
    fn seen(window: &Window, size: [usize; 2], tap: usize, output: [usize; 2]) -> Option<usize> {
        let taps = [tap / window.kernel[1], tap % window.kernel[1]];
        let [line, place] = [0, 1].map(|axis| {
            let from = output[axis] * window.stride[axis] + taps[axis] * window.dilation[axis];
            from.checked_sub(window.padding[axis].0).filter(|&at| at < size[axis])
        });
        Some(line? * size[1] + place?)
    }

    #[test]
    fn every_column_sees_its_pixels_from_its_offset_on_and_never_past_the_planes() {
        let windows = [
            ([3, 3], [1, 1], [1, 1], [(1, 1), (1, 1)]),
            ([3, 2], [2, 3], [1, 1], [(0, 0), (2, 1)]),
            ([2, 3], [5, 2], [1, 3], [(3, 0), (0, 4)]),
            ([1, 1], [2, 4], [1, 1], [(0, 0), (0, 0)]),
            ([3, 3], [2, 4], [3, 2], [(1, 2), (3, 0)]),
        ];
        for (kernel, stride, dilation, padding) in windows {
            let window = Window { kernel, stride, dilation, padding };
            for [channels, height, width] in [[1, 9, 11], [3, 17, 7], [2, 7, 31]] {
                let [lines, columns] = window.output([height, width]);
                let picture: Vec<f32> = (1..=channels * height * width).map(|i| i as f32).collect();
                for strips in 1..=lines {
                    let most = lines.div_ceil(strips);
                    let planes = Planes::new(&window, [channels, height, width], most, columns);
                    let offsets = planes.offsets();
                    let last = *offsets.iter().max().unwrap() as usize;
                    assert!(last + (most - 1) * planes.pitch + columns <= planes.len());
                    for strip in 0..strips {
                        let strip = part(lines, strip, strips);
                        assert!(strip.len() <= most);
                        let mut filled = vec![f32::NAN; planes.len()];
                        planes.fill(&picture, &strip, &mut filled);
                        for (at, &offset) in offsets.iter().enumerate() {
                            let (tap, channel) = (at / channels, at % channels);
                            let picture = &picture[channel * height * width..];
                            for (number, line) in strip.clone().enumerate() {
                                for column in 0..columns {
                                    let at = offset as usize + number * planes.pitch + column;
                                    let seen = seen(&window, [height, width], tap, [line, column]);
                                    assert_eq!(filled[at], seen.map_or(0.0, |seen| picture[seen]));
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
