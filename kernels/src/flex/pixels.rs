//! Convolutions without an image of every window: a tile is packed from the pictures themselves, and its
//! outputs go back as rows of pixels (implicit matrix product; Chetlur et al., 2014, section 3).

use std::ops::Range;

use super::parallel::Shared;
use super::simd::{Isa, Simd, Work, dispatch};
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

    /// What the tap of a kernel sees in a run.
    fn sight(&self, tap: usize, run: &Run) -> Sight {
        let [_, channels, height, width] = self.shape;
        let Window { kernel, stride, dilation, padding } = self.window;
        let taps = [tap / kernel[1], tap % kernel[1]];
        // In coordinates that begin at the padding, so that nothing is negative.
        let row = run.row * stride[0] + taps[0] * dilation[0];
        if row < padding[0].0 || row >= padding[0].0 + height {
            return Sight { begin: 0, end: 0, from: 0 };
        }
        let line = run.sample * channels * height + row - padding[0].0;
        let (step, before) = (stride[1], padding[1].0);
        let first = run.column * step + taps[1] * dilation[1];
        let begin = before.saturating_sub(first).div_ceil(step).min(run.len);
        let end = (before + width).saturating_sub(first).div_ceil(step).clamp(begin, run.len);
        let column = (first + begin * step).saturating_sub(before);
        Sight { begin, end, from: line * width + column }
    }
}

/// The tokens of a run, from its first, whose column lies in the picture, and where the first of these is in
/// the first channel.
struct Sight {
    begin: usize,
    end: usize,
    from: usize,
}

/// Some channels of one tap, for all tokens of a tile.
struct Taps<'a> {
    pixels: &'a Pixels<'a>,
    tap: usize,
    channels: Range<usize>,
    runs: &'a [Run],
    /// The row of the tap's first channel.
    to: *mut f32,
    width: usize,
}

impl Work for Taps<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let [_, _, height, width] = self.pixels.shape;
        let step = self.pixels.window.stride[1];
        for run in self.runs {
            let sight = self.pixels.sight(self.tap, run);
            let len = sight.end - sight.begin;
            for channel in self.channels.clone() {
                // SAFETY: `to` has a row of `width` floats for every channel, and the run lies in it; what is
                // in sight lies in the picture, which `x` holds for every channel.
                unsafe {
                    let to = self.to.add(channel * self.width + run.at);
                    let from = self.pixels.x.as_ptr().add(sight.from + channel * height * width);
                    fill::<S>(to, sight.begin);
                    fill::<S>(to.add(sight.end), run.len - sight.end);
                    let to = to.add(sight.begin);
                    if step == 1 {
                        for at in (0..len).step_by(S::LANES) {
                            let count = S::LANES.min(len - at);
                            S::store_first(to.add(at), S::load_first(from.add(at), count), count);
                        }
                    } else {
                        for at in 0..len {
                            *to.add(at) = *from.add(at * step);
                        }
                    }
                }
            }
        }
    }
}

/// Zeros.
///
/// # Safety
/// `to` holds `len` floats.
#[inline(always)]
unsafe fn fill<S: Simd>(to: *mut f32, len: usize) {
    for at in (0..len).step_by(S::LANES) {
        // SAFETY: passed on.
        unsafe { S::store_first(to.add(at), S::zero(), S::LANES.min(len - at)) };
    }
}

impl Tokens for Pixels<'_> {
    fn count(&self) -> usize {
        self.shape[0] * self.out[0] * self.out[1]
    }

    fn pack(&self, isa: Isa, tile: &Tile, features: Range<usize>, xt: Shared) {
        let width = width(isa, tile);
        let (runs, channels) = (self.runs(tile), self.shape[1]);
        for feature in features.clone() {
            let seen = if feature < self.cols { tile.tokens } else { 0 };
            // SAFETY: `xt` has a row of `width` floats for every feature, and nobody else has this one.
            unsafe { xt.get().add(feature * width + seen).write_bytes(0, width - seen) };
        }
        let end = features.end.min(self.cols);
        let mut from = features.start;
        while from < end {
            let tap = from / channels;
            let to = end.min((tap + 1) * channels);
            let channels = from - tap * channels..to - tap * channels;
            // SAFETY: as above, for the rows of these channels.
            let first = unsafe { xt.get().add(tap * self.shape[1] * width) };
            dispatch(isa, Taps { pixels: self, tap, channels, runs: &runs, to: first, width });
            from = to;
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
