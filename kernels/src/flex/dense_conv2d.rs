use rayon::prelude::*;

use super::product::{View, product};
use crate::Window;

/// A convolution with a dense kernel: a thread unfolds one picture at a time, always into the same memory, as
/// `[in · kernel row · kernel column, output pixels]`.
pub(crate) struct DenseConv2d<'a> {
    pub(crate) window: Window,
    /// `[batch, in, height, width]`.
    pub(crate) x: &'a [f32],
    pub(crate) x_shape: [usize; 4],
    /// `[out, in, kernel rows, kernel columns]`.
    pub(crate) weight: &'a [f32],
    /// Output channels.
    pub(crate) out: usize,
}

/// The gradients of what a convolution is made of.
pub(crate) struct Gradients {
    /// Nothing where nobody wants it.
    pub(crate) x: Option<Vec<f32>>,
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

/// Parts of the batch that each add up a gradient of the weight. Their number is fixed, so that sums have the
/// same bits on any number of threads.
const PARTS: usize = 16;

impl DenseConv2d<'_> {
    /// `[batch, out, height', width']`.
    pub(crate) fn forward(&self, bias: &[f32]) -> Vec<f32> {
        let ([cols, pixels], picture) = (self.unfolded(), self.picture());
        let mut y = vec![0.0; self.x_shape[0] * self.out * pixels];
        let weight = View::rows(self.weight, cols);
        let pictures = self.x.par_chunks_exact(picture.max(1));
        let each = |windows: &mut Vec<f32>, (x, y): (&[f32], &mut [f32])| {
            self.unfold(x, windows);
            for (y, &bias) in y.chunks_exact_mut(pixels.max(1)).zip(bias) {
                y.fill(bias);
            }
            product([self.out, pixels, cols], y, true, weight, View::rows(windows, pixels));
        };
        pictures
            .zip(y.par_chunks_exact_mut((self.out * pixels).max(1)))
            .for_each_init(|| vec![0.0; cols * pixels], each);
        y
    }

    /// The gradients for those of the output.
    pub(crate) fn backward(&self, dy: &[f32], wants_x: bool) -> Gradients {
        let ([cols, pixels], picture) = (self.unfolded(), self.picture());
        let [batch, ..] = self.x_shape;
        let mut x = vec![0.0; if wants_x { self.x.len() } else { 0 }];
        let each = batch.div_ceil(PARTS).max(1);
        let parts: Vec<_> = {
            let mut dx = x.chunks_mut((each * picture).max(1));
            let xs = self.x.chunks((each * picture).max(1));
            let dys = dy.chunks((each * self.out * pixels).max(1));
            xs.zip(dys).map(|(x, dy)| (x, dy, dx.next())).collect()
        };
        let parts: Vec<_> = parts.into_par_iter().map(|(x, dy, dx)| self.part(x, dy, dx)).collect();
        let mut turned = vec![0.0; cols * self.out];
        let mut bias = vec![0.0; self.out];
        for (part, of_bias) in parts {
            turned.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            bias.iter_mut().zip(of_bias).for_each(|(sum, part)| *sum += part);
        }
        let at = |at: usize| turned[at % cols * self.out + at / cols];
        let weight = (0..turned.len()).map(at).collect();
        Gradients { x: wants_x.then_some(x), weight, bias }
    }

    /// The gradients of weight, `[in · kernel row · kernel column, out]`, and bias for some pictures; that of `x`
    /// is added to `dx`.
    fn part(&self, x: &[f32], dy: &[f32], mut dx: Option<&mut [f32]>) -> (Vec<f32>, Vec<f32>) {
        let ([cols, pixels], picture) = (self.unfolded(), self.picture());
        let mut windows = vec![0.0; cols * pixels];
        let mut turned = vec![0.0; cols * self.out];
        let mut bias = vec![0.0; self.out];
        let pictures = x.chunks_exact(picture.max(1));
        let gradients = dy.chunks_exact((self.out * pixels).max(1));
        for (number, (x, dy)) in pictures.zip(gradients).enumerate() {
            for (sum, dy) in bias.iter_mut().zip(dy.chunks_exact(pixels.max(1))) {
                *sum += dy.iter().sum::<f32>();
            }
            let dy = View::rows(dy, pixels);
            self.unfold(x, &mut windows);
            // This way round, and not `dy · windowsᵀ`: a product copies what it has to turn around, and the
            // windows are the larger.
            let seen = View::rows(&windows, pixels);
            product([cols, self.out, pixels], &mut turned, true, seen, dy.transposed());
            if let Some(dx) = &mut dx {
                let weight = View::rows(self.weight, cols).transposed();
                product([cols, pixels, self.out], &mut windows, false, weight, dy);
                self.fold(&windows, &mut dx[number * picture..][..picture]);
            }
        }
        (turned, bias)
    }

    /// Elements of a picture.
    fn picture(&self) -> usize {
        self.x_shape[1..].iter().product()
    }

    /// The shape of an unfolded picture.
    fn unfolded(&self) -> [usize; 2] {
        let [_, channels, height, width] = self.x_shape;
        let taps: usize = self.window.kernel.iter().product();
        let pixels = self.window.output([height, width]).iter().product();
        [channels * taps, pixels]
    }

    /// What each tap of the kernel sees of a picture, tap after tap, zeros beyond its edges.
    fn unfold(&self, x: &[f32], windows: &mut [f32]) {
        let [_, _, height, width] = self.x_shape;
        let [_, columns] = self.window.output([height, width]);
        let [_, stride] = self.window.stride;
        self.for_each_line(|at, from, seen| {
            let line = &mut windows[at * columns..][..columns];
            let Some((from, seen)) = from.zip(seen) else { return line.fill(0.0) };
            line[..seen.start].fill(0.0);
            line[seen.end..].fill(0.0);
            let line = &mut line[seen];
            match stride {
                1 => line.copy_from_slice(&x[from..from + line.len()]),
                _ => {
                    line.iter_mut().zip(x[from..].iter().step_by(stride)).for_each(|(w, x)| *w = *x)
                }
            }
        });
    }

    /// The other way round: adds what each tap has seen to where it saw it.
    fn fold(&self, windows: &[f32], x: &mut [f32]) {
        let [_, _, height, width] = self.x_shape;
        let [_, columns] = self.window.output([height, width]);
        let [_, stride] = self.window.stride;
        self.for_each_line(|at, from, seen| {
            let Some((from, seen)) = from.zip(seen) else { return };
            let line = &windows[at * columns..][..columns][seen];
            match stride {
                1 => x[from..from + line.len()].iter_mut().zip(line).for_each(|(x, w)| *x += w),
                _ => x[from..].iter_mut().step_by(stride).zip(line).for_each(|(x, w)| *x += w),
            }
        });
    }

    /// Every line of output pixels under every tap: its number, where in the picture the first pixel that it
    /// sees lies, and which of its pixels see one at all.
    fn for_each_line(
        &self,
        mut each: impl FnMut(usize, Option<usize>, Option<std::ops::Range<usize>>),
    ) {
        let Window { kernel, stride, dilation, padding } = self.window;
        let [_, channels, height, width] = self.x_shape;
        let [rows, columns] = self.window.output([height, width]);
        let mut at = 0;
        for channel in 0..channels {
            for tap in 0..kernel[0] * kernel[1] {
                let [down, right] = [tap / kernel[1] * dilation[0], tap % kernel[1] * dilation[1]];
                // The first pixel that is not left of the picture, and the first that is right of it.
                let first = padding[1].0.saturating_sub(right).div_ceil(stride[1]).min(columns);
                let end = (width + padding[1].0).saturating_sub(right).div_ceil(stride[1]);
                let end = end.min(columns);
                let seen = (end > first).then_some(first..end);
                for row in 0..rows {
                    let y = (row * stride[0] + down).checked_sub(padding[0].0);
                    let from = y.filter(|&y| y < height).map(|y| {
                        let x = (first * stride[1] + right).saturating_sub(padding[1].0);
                        (channel * height + y) * width + x
                    });
                    each(at, from, seen.clone());
                    at += 1;
                }
            }
        }
    }
}
