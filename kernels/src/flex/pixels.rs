//! Convolutions without an image of every window: a tile is packed from the pictures themselves, and its
//! outputs go back as rows of pixels (implicit matrix product; Chetlur et al., 2014, section 3).

use std::ops::Range;

use super::parallel::Shared;
use super::simd::Isa;
use super::tile::width;
use super::tile::{self, Tile};
use super::tokens::Tokens;
use super::{Store, Value, Weight};
use crate::Window;

/// `y [batch, rows, height, width]` for `x [batch, channels, height, width]`; the weight's columns are
/// kernel row, kernel column, channel, the channel fastest.
///
/// # Panics
/// When `x` has another length; callers have checked the rest.
pub(crate) fn conv2d<V: Value>(
    isa: Isa,
    weight: &Weight<'_, V>,
    x: &[f32],
    shape: [usize; 4],
    window: &Window,
    store: Store<'_>,
) -> Vec<f32> {
    assert_eq!(x.len(), shape.iter().product::<usize>());
    let [batch, channels, height, width] = shape;
    assert_eq!(weight.cols, channels * window.kernel[0] * window.kernel[1]);
    let out = window.output([height, width]);
    let len = batch * weight.rows * out[0] * out[1];
    let mut y = Vec::with_capacity(len);
    if len > 0 {
        let (rows, y) = (weight.rows, Shared::spare(&mut y));
        let pixels = Pixels { x, shape, window, out, rows, cols: weight.cols, y };
        tile::run(isa, weight, &pixels, store);
    }
    // SAFETY: every tile has written every row of its pixels.
    unsafe { y.set_len(len) };
    y
}

/// One token for every output pixel, in their order.
struct Pixels<'a> {
    x: &'a [f32],
    /// Of `x`: batch, channels, height, width.
    shape: [usize; 4],
    window: &'a Window,
    /// Height and width of the output.
    out: [usize; 2],
    rows: usize,
    cols: usize,
    y: Shared,
}

/// Tokens that lie side by side in one row of an output picture.
struct Run {
    /// The first, counted in the tile.
    at: usize,
    len: usize,
    sample: usize,
    row: usize,
    column: usize,
}

impl Pixels<'_> {
    /// A tile's tokens, cut where output rows end.
    fn runs(&self, tile: &Tile) -> Vec<Run> {
        let [height, width] = self.out;
        let (mut runs, mut at) = (Vec::new(), 0);
        while at < tile.tokens {
            let token = tile.first + at;
            let (line, column) = (token / width, token % width);
            let len = (width - column).min(tile.tokens - at);
            runs.push(Run { at, len, sample: line / height, row: line % height, column });
            at += len;
        }
        runs
    }

    /// One feature of one run: a stretch of an input row, zeros where the window hangs over its edge.
    fn read(&self, feature: usize, run: &Run, to: &mut [f32]) {
        let [_, channels, height, width] = self.shape;
        let (tap, channel) = (feature / channels, feature % channels);
        let Window { kernel, stride, dilation, padding } = self.window;
        let taps = [tap / kernel[1], tap % kernel[1]];
        // In coordinates that begin at the padding, so that nothing is negative.
        let row = run.row * stride[0] + taps[0] * dilation[0];
        if row < padding[0].0 || row >= padding[0].0 + height {
            return to.fill(0.0);
        }
        let line = (run.sample * channels + channel) * height + row - padding[0].0;
        let line = &self.x[line * width..][..width];
        let (step, before) = (stride[1], padding[1].0);
        let first = run.column * step + taps[1] * dilation[1];
        // The tokens whose column lies in the picture.
        let begin = before.saturating_sub(first).div_ceil(step).min(to.len());
        let end = (before + width).saturating_sub(first).div_ceil(step).clamp(begin, to.len());
        to[..begin].fill(0.0);
        to[end..].fill(0.0);
        if begin == end {
            return;
        }
        let line = &line[first + begin * step - before..];
        let inside = &mut to[begin..end];
        match step {
            1 => inside.copy_from_slice(&line[..inside.len()]),
            _ => inside.iter_mut().zip(line.iter().step_by(step)).for_each(|(to, x)| *to = *x),
        }
    }
}

impl Tokens for Pixels<'_> {
    fn count(&self) -> usize {
        self.shape[0] * self.out[0] * self.out[1]
    }

    fn pack(&self, isa: Isa, tile: &Tile, features: Range<usize>, xt: Shared) {
        let width = width(isa, tile);
        let runs = self.runs(tile);
        for feature in features {
            // SAFETY: `xt` has a row of `width` floats for every feature, and nobody else has this one.
            let line =
                unsafe { std::slice::from_raw_parts_mut(xt.get().add(feature * width), width) };
            line[tile.tokens..].fill(0.0);
            if feature >= self.cols {
                line.fill(0.0);
                continue;
            }
            for run in &runs {
                self.read(feature, run, &mut line[run.at..run.at + run.len]);
            }
        }
    }

    fn unpack(&self, isa: Isa, tile: &Tile, range: Range<usize>, yt: Shared) {
        let (width, picture) = (width(isa, tile), self.out[0] * self.out[1]);
        for row in range {
            let mut at = 0;
            while at < tile.tokens {
                let token = tile.first + at;
                let (sample, pixel) = (token / picture, token % picture);
                let len = (picture - pixel).min(tile.tokens - at);
                // SAFETY: `yt` holds this row of the tile's tokens and `y` this row of all pictures; parts
                // own disjoint rows or tokens.
                unsafe {
                    let from = yt.get().add(row * width + at);
                    let to = self.y.get().add((sample * self.rows + row) * picture + pixel);
                    to.copy_from_nonoverlapping(from, len);
                }
                at += len;
            }
        }
    }
}
