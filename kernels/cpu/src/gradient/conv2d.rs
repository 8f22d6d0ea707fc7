//! Gradients of convolutions without unfolding: a tap reads, and adds to, the image itself, shifted ([`Planes`]).

use std::ops::Range;

use rayon::prelude::*;

use super::dots::Dots;
use super::input::{Scatter, window as widened};
use super::panels::{Multiply, Panel, panels};
use crate::conv2d::{PLANES, Planes, line};
use crate::parallel::{Shared, part, with_scratch};
use crate::simd::{Isa, dispatch};
use crate::tiles::{Packed, Shifted, Strided, Tile, cut, units, width};
use crate::weight::typed;
use crate::{Layout, PackedWeight, Value, Weight, Window};

/// Gradients of the input, the kept values, and the bias of a convolution.
pub struct Conv2dGradients {
    /// Gradient of the input, `[batch, channels, height, width]`; `None` if it was not requested.
    pub x: Option<Vec<f32>>,
    /// Gradient of every stored value; zero for padding.
    pub values: Vec<f32>,
    /// Gradient of the bias, `[rows]`.
    pub bias: Vec<f32>,
}

/// Number of parts of the batch, each of which adds up gradients of the values. It is fixed so that sums are bitwise identical
/// for any number of threads.
const PARTS: usize = 16;

/// Output pixels above which an image is cut into strips, whose gradients and a few channels stay in the fastest caches.
const MOST: usize = 1536;

/// Output pixels below which several images are processed together: sums along pixels are added up once for all of them.
const FEWEST: usize = 256;

/// Returns the gradients of [`crate::conv2d`], given the gradient `dy [batch, rows, height', width']` of its output.
///
/// # Panics
/// Panics if slices or the weight have other sizes, or if a line of outputs reads more than 16 GB.
pub fn conv2d(
    isa: Isa,
    weight: &PackedWeight<'_>,
    (x, dy): (&[f32], &[f32]),
    shape: [usize; 4],
    window: &Window,
    wants_x: bool,
) -> Conv2dGradients {
    typed!(weight, weight => gradients(isa, weight, (x, dy), shape, window, wants_x))
}

fn gradients<V: Value>(
    isa: Isa,
    weight: &Weight<'_, V>,
    (x, dy): (&[f32], &[f32]),
    shape: [usize; 4],
    window: &Window,
    wants_x: bool,
) -> Conv2dGradients {
    let [batch, channels, height, columns] = shape;
    let outputs = window.output([height, columns]);
    let pixels = outputs[0] * outputs[1];
    assert_eq!([x.len(), dy.len()], [shape.iter().product(), batch * weight.rows * pixels]);
    assert_eq!(weight.cols, channels * window.kernel[0] * window.kernel[1]);
    let mut dx = vec![0.0; if wants_x { x.len() } else { 0 }];
    let mut values = vec![0.0; weight.values.len()];
    let mut bias = vec![0.0; weight.rows];
    if !x.is_empty() && !dy.is_empty() {
        let image = [channels, height, columns];
        let convolution = Convolution::new(isa, weight, window, image, outputs, wants_x);
        let each = batch.div_ceil(PARTS);
        let of_x = each * image.iter().product::<usize>();
        let mut dx = dx.chunks_mut(of_x);
        let parts: Vec<_> = x
            .chunks(of_x)
            .zip(dy.chunks(each * weight.rows * pixels))
            .map(|(x, dy)| (x, dy, dx.next()))
            .collect();
        let parts: Vec<_> =
            parts.into_par_iter().map(|(x, dy, dx)| convolution.part(x, dy, dx)).collect();
        for (part, of_bias) in parts {
            values.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            bias.iter_mut().zip(of_bias).for_each(|(sum, part)| *sum += part);
        }
    } else if !dy.is_empty() {
        // Images without pixels have outputs if they are padded: the bias.
        for (row, dy) in dy.chunks_exact(pixels).enumerate() {
            bias[row % weight.rows] += dy.iter().sum::<f32>();
        }
    }
    Conv2dGradients { x: wants_x.then_some(dx), values, bias }
}

/// Layout of the images, or the lines of one image, that are processed at a time.
struct Convolution<'a, V> {
    isa: Isa,
    weight: &'a Weight<'a, V>,
    planes: Planes<'a>,
    /// Offsets of the inputs of every column, from [`Planes::offsets`].
    offsets: Vec<u32>,
    /// Entries of weights whose rows share no columns, if the gradient of the input is wanted.
    panels: Vec<Panel>,
    /// Lines and columns of an output image.
    outputs: [usize; 2],
    /// Number of strips per image.
    strips: usize,
    /// Number of images that are processed together.
    together: usize,
}

impl<'a, V: Value> Convolution<'a, V> {
    fn new(
        isa: Isa,
        weight: &'a Weight<'a, V>,
        window: &'a Window,
        image: [usize; 3],
        outputs @ [lines, columns]: [usize; 2],
        wants_x: bool,
    ) -> Self {
        let planes = |lines| Planes::new(window, image, lines, columns);
        let all = planes(lines);
        let (pixels, bytes) = (lines * all.pitch, all.len() * size_of::<f32>());
        let strips = (bytes / PLANES).max(pixels / MOST).clamp(1, lines);
        let together = if strips == 1 { FEWEST.div_ceil(pixels) } else { 1 };
        let reach = all.reach();
        let planes = planes(together * (lines.div_ceil(strips) + reach) - reach);
        let panels = match weight.layout {
            Layout::Grouped { .. } => Vec::new(),
            Layout::Balanced { .. } | Layout::Rows if wants_x => panels(weight),
            Layout::Balanced { .. } | Layout::Rows => Vec::new(),
        };
        let offsets = planes.offsets();
        Self { isa, weight, planes, offsets, panels, outputs, strips, together }
    }

    /// Returns the gradients of the values and of the bias for some images; adds the gradient of `x` to `dx`.
    fn part(&self, x: &[f32], dy: &[f32], dx: Option<&mut [f32]>) -> (Vec<f32>, Vec<f32>) {
        let Self { weight, together, strips, outputs: [lines, columns], .. } = *self;
        let picture = self.planes.picture();
        let mut values = vec![0.0; weight.values.len()];
        let mut bias = vec![0.0; weight.rows];
        for (row, dy) in dy.chunks_exact(lines * columns).enumerate() {
            bias[row % weight.rows] += line::sum(dy);
        }
        let mut dx = dx.map(|dx| dx.chunks_mut(together * picture));
        let of_y = weight.rows * lines * columns;
        for (x, dy) in x.chunks(together * picture).zip(dy.chunks(together * of_y)) {
            let mut dx = dx.as_mut().and_then(Iterator::next);
            for strip in 0..strips {
                self.lines(part(lines, strip, strips), x, dy, dx.as_deref_mut(), &mut values);
            }
        }
        (values, bias)
    }

    /// Adds the gradients of these lines of outputs of a few images.
    fn lines(
        &self,
        lines: Range<usize>,
        x: &[f32],
        dy: &[f32],
        dx: Option<&mut [f32]>,
        values: &mut [f32],
    ) {
        let Self { isa, weight, planes, .. } = self;
        let picture = planes.picture();
        let each = lines.len() + planes.reach();
        let images = x.len() / picture;
        let tokens = (images * each - planes.reach() - 1) * planes.pitch + self.outputs[1];
        let one = Tile { first: 0, tokens, vectors: 1 };
        let stride = tokens.next_multiple_of(width(*isa, &one));
        let vectors = stride / width(*isa, &one);
        let tiles = cut(*isa, weight.layout, tokens, 1);
        let widest = tiles.iter().map(|tile| width(*isa, tile)).max().unwrap_or(0);
        // The last tile reads and adds past the end of the last plane, and past the last row.
        let seen = (planes.len() + stride.max(widest)).next_multiple_of(16);
        let rows = (weight.rows * stride + widest).next_multiple_of(16);
        with_scratch(rows + seen, |scratch| {
            let (dyt, seen) = scratch.split_at_mut(rows);
            self.lay_out(&lines, each, dy, (dyt, stride));
            seen.fill(0.0);
            for (number, x) in x.chunks_exact(picture).enumerate() {
                planes.place(x, &lines, number * each, seen);
            }
            let x = Shifted { first: seen.as_ptr(), offsets: &self.offsets };
            let (units, dw) = (0..units(weight), Shared::new(values));
            let dyt = &*dyt;
            let dy = Packed(dyt.as_ptr());
            dispatch(*isa, Dots { weight, units, x, dy, vectors, dw });
            let Some(dx) = dx else { return };
            seen.fill(0.0);
            for tile in &tiles {
                self.add_input(tile, (dyt, stride), seen);
            }
            for (number, dx) in dx.chunks_exact_mut(picture).enumerate() {
                planes.add_to(dx, &lines, number * each, seen);
            }
        });
    }

    /// Copies the gradients of these lines of outputs to rows at the pitch of the planes, with zeros between lines and images.
    fn lay_out(
        &self,
        lines: &Range<usize>,
        each: usize,
        dy: &[f32],
        (dyt, stride): (&mut [f32], usize),
    ) {
        let ([height, columns], rows) = (self.outputs, self.weight.rows);
        dyt.fill(0.0);
        for (number, dy) in dy.chunks_exact(height * columns).enumerate() {
            let (image, row) = (number / rows, number % rows);
            let dy = dy[lines.start * columns..lines.end * columns].chunks_exact(columns);
            let first = row * stride + image * each * self.planes.pitch;
            let to = dyt[first..].chunks_mut(self.planes.pitch);
            dy.zip(to).for_each(|(dy, to)| line::copy(dy, &mut to[..columns]));
        }
    }

    /// Adds the gradient of the inputs of a tile to the planes.
    fn add_input(&self, tile: &Tile, (dyt, stride): (&[f32], usize), planes: &mut [f32]) {
        let Self { isa, weight, offsets, .. } = self;
        let vectors = tile.vectors;
        let dy = Strided { first: dyt[tile.first..].as_ptr(), stride };
        let first = planes[tile.first..].as_mut_ptr().cast_const();
        match weight.layout {
            Layout::Grouped { vector } => with_scratch(widened::<V>(vector), |window| {
                let dx = Shifted { first, offsets };
                dispatch(*isa, Scatter { weight, vector, vectors, dy, dx, window });
            }),
            Layout::Balanced { .. } | Layout::Rows => {
                let dx = Shifted { first, offsets };
                for panel in &self.panels {
                    dispatch(*isa, Multiply { panel, vectors, dy, dx });
                }
            }
        }
    }
}
