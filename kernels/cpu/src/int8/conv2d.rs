//! Convolutions without unfolded floats: an image becomes bytes once, channels fastest and padded, and the window of an output
//! pixel is copied together from a few stretches of them.

use std::ops::Range;

use super::dots::{ByteIsa, ByteWork, Dots, MOST, QUAD, dispatch};
use super::inputs::{Inputs, largest, stretches, stride};
use super::run::{PER_FLOAT, block_tokens, multiply};
use super::store::Target;
use super::weight::ByteWeight;
use crate::conv2d::line;
use crate::conv2d::strips;
use crate::layout::TILE_ROWS;
use crate::parallel::{Shared, for_each_part, part, team, with_scratch};
use crate::{Store, Window};

/// Computes `y [batch, rows, height, width]` from `x [batch, channels, height, width]`, with inputs rounded to bytes, each image by
/// one scale; the weight's columns are ordered by kernel row, kernel column, and channel, with the channel varying fastest.
///
/// # Panics
/// Panics if slices or the weight have other sizes.
pub fn conv2d(
    isa: ByteIsa,
    weight: &ByteWeight,
    x: &[f32],
    shape: [usize; 4],
    window: &Window,
    store: Store<'_>,
) -> Vec<f32> {
    assert_eq!(x.len(), shape.iter().product::<usize>());
    let [batch, channels, height, width] = shape;
    assert!(store.bias.is_none_or(|bias| bias.len() == weight.rows));
    assert_eq!(weight.cols, channels * window.kernel[0] * window.kernel[1]);
    let outputs @ [lines, columns] = window.output([height, width]);
    let len = batch * weight.rows * lines * columns;
    let mut y = Vec::with_capacity(len);
    if len > 0 {
        let team = team(weight.work() * batch * lines * columns / PER_FLOAT, weight.bytes());
        let strips = strips(team.threads, batch, outputs);
        let y = Shared::spare(&mut y);
        let shape = [channels, height, width];
        let convolution = Convolution { isa, weight, store, window, shape, outputs, y };
        for_each_part(batch * strips, team, |at| {
            let picture = channels * height * width;
            let picture = &x[at / strips * picture..][..picture];
            convolution.strip(picture, at / strips, part(lines, at % strips, strips));
        });
    }
    // SAFETY: every strip has written every row of its pixels.
    unsafe { y.set_len(len) };
    y
}

struct Convolution<'a> {
    isa: ByteIsa,
    weight: &'a ByteWeight,
    store: Store<'a>,
    window: &'a Window,
    /// Channels, height, and width of an image.
    shape: [usize; 3],
    /// Lines and columns of an output image.
    outputs: [usize; 2],
    y: Shared,
}

impl Convolution<'_> {
    /// Computes these lines of the outputs of one image.
    fn strip(&self, picture: &[f32], number: usize, lines: Range<usize>) {
        let Self { isa, weight, window, shape, outputs, .. } = *self;
        let reach = [0, 1].map(|axis| (window.kernel[axis] - 1) * window.dilation[axis] + 1);
        let seen = (lines.len() - 1) * window.stride[0] + reach[0];
        let pitch = (outputs[1] - 1) * window.stride[1] + reach[1];
        let (count, cols) = (lines.len() * outputs[1], weight.cols);
        let most = block_tokens(weight);
        let (stretches, lanes) = (stretches(cols), weight.lanes.len() * TILE_ROWS);
        let sizes = [(seen * pitch * shape[0]).div_ceil(4), most * stride(cols) / 4];
        with_scratch(sizes[0] + sizes[1] + most * (stretches + lanes), |scratch| {
            let (pixels, rest) = scratch.split_at_mut(sizes[0]);
            let (tokens, rest) = rest.split_at_mut(sizes[1]);
            let (scales, lanes) = rest.split_at_mut(most * stretches);
            let pixels: &mut [u8] = bytemuck::cast_slice_mut(pixels);
            let tokens: &mut [u8] = bytemuck::cast_slice_mut(tokens);
            let first = lines.start * window.stride[0];
            let plan = Pixels { picture, shape, window, first, seen, pitch, to: pixels };
            scales.fill(dispatch(isa, plan));
            for from in (0..count).step_by(most) {
                let block = from..count.min(from + most);
                self.gather(pixels, pitch, block.clone(), tokens);
                let inputs = Inputs {
                    bytes: &tokens[..block.len() * stride(cols)],
                    stride: stride(cols),
                    scales: &scales[..block.len() * stretches],
                    stretches,
                };
                let (store, stride) = (self.store, weight.lanes.len() * TILE_ROWS);
                let target = Target { store, y: Shared::new(lanes), stride, in_lanes: true };
                multiply(isa, weight, 0..weight.units.len(), inputs, target);
                let pixel = lines.start * outputs[1] + block.start;
                self.hand_on(&lanes[..block.len() * stride], number, pixel);
            }
        });
    }

    /// Copies the windows of a block of outputs, counted from the first of the strip, to tokens.
    fn gather(&self, pixels: &[u8], pitch: usize, block: Range<usize>, tokens: &mut [u8]) {
        let Window { kernel, stride: step, dilation, .. } = *self.window;
        let (channels, columns) = (self.shape[0], self.outputs[1]);
        // Neighbouring elements of a kernel's row are neighbours in memory unless it is dilated.
        let (taps, apart) = match dilation[1] {
            1 => (1, 0),
            apart => (kernel[1], apart * channels),
        };
        let run = kernel[1] / taps * channels;
        let (mut line, mut column) = (block.start / columns, block.start % columns);
        for token in tokens.chunks_exact_mut(stride(self.weight.cols)).take(block.len()) {
            let mut to = token.chunks_exact_mut(run);
            for row in 0..kernel[0] {
                let at = (line * step[0] + row * dilation[0]) * pitch + column * step[1];
                for tap in 0..taps {
                    let from = &pixels[at * channels + tap * apart..][..run];
                    if let Some(to) = to.next() {
                        line::copy(from, to);
                    }
                }
            }
            column += 1;
            if column == columns {
                (line, column) = (line + 1, 0);
            }
        }
    }

    /// Copies the outputs of a block, `[tokens, lanes]`, to the image, from this pixel on.
    fn hand_on(&self, lanes: &[f32], number: usize, pixel: usize) {
        let (weight, stride) = (self.weight, self.weight.lanes.len() * TILE_ROWS);
        let pixels = self.outputs[0] * self.outputs[1];
        for row in 0..weight.rows {
            let lane = weight.places.get(row).map_or(row, |&lane| lane as usize);
            // SAFETY: `y` holds this row of all images; strips own disjoint pixels.
            unsafe {
                let to = self.y.get().add((number * weight.rows + row) * pixels + pixel);
                for (token, lanes) in lanes.chunks_exact(stride).enumerate() {
                    *to.add(token) = *lanes.get_unchecked(lane);
                }
            }
        }
    }
}

/// Rounds what some lines of outputs see of an image to bytes, `[seen, pitch, channels]`. Returns the scale.
struct Pixels<'a> {
    /// `[channels, height, width]`.
    picture: &'a [f32],
    shape: [usize; 3],
    window: &'a Window,
    /// First line that is seen, counted from that of the padding.
    first: usize,
    /// Number of lines.
    seen: usize,
    /// Pixels from one line to the next.
    pitch: usize,
    to: &'a mut [u8],
}

impl ByteWork for Pixels<'_> {
    type Output = f32;

    #[inline(always)]
    unsafe fn run<D: Dots>(self) -> f32 {
        let Self { picture, shape: [channels, height, width], window, first, seen, pitch, to } =
            self;
        let [(above, _), (left, _)] = window.padding;
        // SAFETY: guaranteed by the caller; every call of `quantize` gets 16 floats and 16 bytes.
        unsafe {
            let largest = largest::<D::Floats>(picture);
            let inverse = if largest > 0.0 { MOST as f32 / largest } else { 0.0 };
            let mut padding = [0; TILE_ROWS];
            D::quantize([0.0; TILE_ROWS].as_ptr(), 0.0, padding.as_mut_ptr());
            to.fill(padding[0]);
            let width_seen = width.min(pitch.saturating_sub(left));
            for line in 0..seen {
                let Some(from) = (first + line).checked_sub(above).filter(|at| *at < height) else {
                    continue;
                };
                for channel in (0..channels).step_by(QUAD) {
                    let quad = QUAD.min(channels - channel);
                    for column in (0..width_seen).step_by(TILE_ROWS) {
                        let len = TILE_ROWS.min(width_seen - column);
                        let mut bytes = [[0; TILE_ROWS]; QUAD];
                        for (at, bytes) in bytes.iter_mut().take(quad).enumerate() {
                            let at = ((channel + at) * height + from) * width + column;
                            let from = &picture[at..][..len];
                            let mut values = [0.0; TILE_ROWS];
                            let from = if len == TILE_ROWS {
                                from.as_ptr()
                            } else {
                                values[..len].copy_from_slice(from);
                                values.as_ptr()
                            };
                            D::quantize(from, inverse, bytes.as_mut_ptr());
                        }
                        let at = (line * pitch + left + column) * channels + channel;
                        let [a, b, c, d] = &bytes;
                        let pixels = to[at..].chunks_mut(channels).zip(a).zip(b).zip(c).zip(d);
                        for ((((to, &a), &b), &c), &d) in pixels.take(len) {
                            match to.first_chunk_mut() {
                                Some(to) if quad == QUAD => *to = [a, b, c, d],
                                _ => to[..quad].copy_from_slice(&[a, b, c, d][..quad]),
                            }
                        }
                    }
                }
            }
            largest / MOST as f32
        }
    }
}
