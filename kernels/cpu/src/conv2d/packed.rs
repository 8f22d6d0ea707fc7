//! Convolutions without unfolding (im2col): the input of a tap is the image itself, shifted ([`Planes`]).

use std::mem::MaybeUninit;
use std::ops::Range;

use super::line;
use super::planes::Planes;
use super::strips::strips;
use crate::parallel::{Shared, for_each_part, part, team, with_scratch};
use crate::simd::{Isa, Simd, Work, dispatch};
use crate::size::elements;
use crate::tiles::{Shifted, Tile, TileRows, cut, multiply, run_groups, units, width, window};
use crate::weight::{Weight, typed};
use crate::{Layout, Window};
use crate::{PackedWeight, Store, Value};

/// Target size in bytes of a strip's planes, so that they stay in the second-level cache while every row of the weight
/// reads them.
pub(crate) const PLANES: usize = 256 << 10;

/// Computes `y [batch, rows, height, width]` from `x [batch, channels, height, width]`; the weight's columns are
/// ordered by kernel row, kernel column, and channel, with the channel varying fastest.
///
/// # Panics
/// Panics if slices or the weight have other sizes, or if a line of outputs reads more than 16 GB.
pub fn conv2d(
    isa: Isa,
    weight: &PackedWeight<'_>,
    x: &[f32],
    shape: [usize; 4],
    window: &Window,
    store: Store<'_>,
) -> Vec<f32> {
    typed!(weight, weight => convolution(isa, weight, x, shape, window, store))
}

fn convolution<V: Value>(
    isa: Isa,
    weight: &Weight<'_, V>,
    x: &[f32],
    shape: [usize; 4],
    window: &Window,
    store: Store<'_>,
) -> Vec<f32> {
    assert_eq!(x.len(), elements(&shape));
    let [batch, channels, height, width] = shape;
    assert!(store.bias.is_none_or(|bias| bias.len() == weight.rows));
    assert_eq!(weight.cols, channels * window.kernel[0] * window.kernel[1]);
    let [lines, columns] = window.output([height, width]);
    let len = elements(&[batch, weight.rows, lines, columns]);
    let mut y = Vec::with_capacity(len);
    if len > 0 {
        let work = weight.work() * batch * lines * columns;
        let team = team(work, size_of::<V>() * weight.work());
        let planes = |lines| Planes::new(window, [channels, height, width], lines, columns);
        let large = planes(lines).len() * size_of::<f32>() / PLANES;
        let strips = strips(team.threads, batch, [lines, columns]).max(large).min(lines);
        let planes = planes(lines.div_ceil(strips));
        let convolution = Convolution {
            isa,
            weight,
            store,
            offsets: &planes.offsets(),
            planes: &planes,
            outputs: [lines, columns],
            y: Shared::spare(&mut y),
        };
        for_each_part(batch * strips, team, |at| {
            let picture = &x[at / strips * planes.picture()..][..planes.picture()];
            convolution.strip(picture, at / strips, part(lines, at % strips, strips));
        });
    }
    // SAFETY: every strip has written every row of its pixels.
    unsafe { y.set_len(len) };
    y
}

struct Convolution<'a, V> {
    isa: Isa,
    weight: &'a Weight<'a, V>,
    store: Store<'a>,
    planes: &'a Planes<'a>,
    /// Offsets of the inputs of every column, from [`Planes::offsets`].
    offsets: &'a [u32],
    /// Lines and columns of an output image.
    outputs: [usize; 2],
    y: Shared,
}

impl<V: Value> Convolution<'_, V> {
    /// Computes these lines of the outputs of one image.
    fn strip(&self, picture: &[f32], number: usize, lines: Range<usize>) {
        let Self { isa, weight, planes, .. } = *self;
        let tokens = (lines.len() - 1) * planes.pitch + self.outputs[1];
        let tiles = cut(isa, weight.layout, tokens, 1);
        let widest = tiles.iter().map(|tile| width(isa, tile)).max().unwrap_or(0);
        // The last tile reads past the end of the last plane.
        let seen = (planes.len() + widest).next_multiple_of(16);
        // A group uses an input for many rows, so it reads the input in place. Single rows read an input for every
        // weight, so inputs are packed first: most vectors of a shifted line straddle two cache lines.
        let packed = match weight.layout {
            Layout::Grouped { .. } => 0,
            Layout::Balanced { .. } | Layout::Rows => weight.tile_rows() * widest,
        };
        with_scratch(seen + packed + weight.padded_rows() * widest, |scratch| {
            let (seen, rest) = scratch.split_at_mut(seen);
            let (xt, yt) = rest.split_at_mut(packed);
            planes.fill(picture, &lines, seen);
            // Past the features that are packed here, `xt` keeps its old content: only an incorrectly packed weight points
            // there.
            let (xt, yt) = (Shared::new(xt), Shared::new(yt));
            for tile in &tiles {
                let first = seen[tile.first..].as_ptr();
                let inputs = Shifted { first, offsets: self.offsets };
                match weight.layout {
                    Layout::Grouped { vector } => with_scratch(window(weight), |window| {
                        let Self { store, .. } = *self;
                        dispatch(isa, Groups { weight, vector, store, tile, inputs, yt, window });
                    }),
                    Layout::Balanced { .. } | Layout::Rows => {
                        dispatch(isa, Pack { inputs, columns: weight.cols, tile, xt });
                        if weight.layout == Layout::Rows {
                            // Padding reads the feature past the last column.
                            let width = width(isa, tile);
                            // SAFETY: in this layout `xt` holds that feature.
                            unsafe { xt.get().add(weight.cols * width).write_bytes(0, width) };
                        }
                        multiply(isa, weight, self.store, tile, 0..units(weight), xt, yt);
                    }
                }
                self.hand_on(tile, yt, number, &lines);
            }
        });
    }

    /// Copies the outputs of a tile to the image, except those between two lines.
    fn hand_on(&self, tile: &Tile, yt: Shared, number: usize, lines: &Range<usize>) {
        let ([height, columns], pitch) = (self.outputs, self.planes.pitch);
        let (width, pixels) = (width(self.isa, tile), height * columns);
        let end = tile.first + tile.tokens;
        for line in tile.first / pitch..end.div_ceil(pitch) {
            let from = (line * pitch).max(tile.first);
            let Some(len) = (line * pitch + columns).min(end).checked_sub(from) else { continue };
            let to = (lines.start + line) * columns + from - line * pitch;
            for row in 0..self.weight.rows {
                let at = [
                    row * width + from - tile.first,
                    (number * self.weight.rows + row) * pixels + to,
                ];
                // SAFETY: `yt` holds this row of the tile's tokens and `y` this row of all images; strips own disjoint
                // lines.
                unsafe {
                    let from = yt.get().add(at[0]).cast::<MaybeUninit<f32>>();
                    let to = self.y.get().add(at[1]).cast::<MaybeUninit<f32>>();
                    let from = std::slice::from_raw_parts(from, len);
                    line::copy(from, std::slice::from_raw_parts_mut(to, len));
                }
            }
        }
    }
}

/// Computes all groups for a tile of shifted inputs.
struct Groups<'a, V> {
    weight: &'a Weight<'a, V>,
    vector: usize,
    store: Store<'a>,
    tile: &'a Tile,
    inputs: Shifted<'a>,
    yt: Shared,
    window: &'a mut [f32],
}

impl<V: Value> Work for Groups<'_, V> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { weight, vector, store, tile, inputs, yt, window } = self;
        let (units, tiles) = (0..units(weight), (inputs, yt.get()));
        // SAFETY: every column has an offset from which the planes hold the tile's tokens; `yt` has room for every row.
        unsafe {
            run_groups::<S, V, _>(weight, vector, store, units, tiles, tile.vectors, window);
        }
    }
}

/// Packs shifted inputs one after the other.
struct Pack<'a> {
    inputs: Shifted<'a>,
    columns: usize,
    tile: &'a Tile,
    xt: Shared,
}

impl Work for Pack<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let width = self.tile.vectors * S::LANES;
        for column in 0..self.columns {
            for lane in (0..width).step_by(S::LANES) {
                // SAFETY: as for `Groups`; `xt` has a row of `width` floats for every column.
                unsafe {
                    let from = self.inputs.row(column, width).add(lane);
                    S::store(self.xt.get().add(column * width + lane), S::load(from));
                }
            }
        }
    }
}
