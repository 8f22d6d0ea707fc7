use rayon::prelude::*;

use super::windows::Windows;
use crate::Window;
use crate::conv2d::strips;
use crate::gemm::{View, product};
use crate::parallel::{Shared, for_each_part, part, team, with_scratch};

/// Convolution with a dense kernel: a thread unfolds (im2col) a few images at a time, or some lines of one, always into
/// the same memory, as `[in · kernel row · kernel column, image · output pixel]`. Pointwise kernels read the images
/// directly.
pub struct DenseConv2d<'a> {
    /// Geometry.
    pub window: Window,
    /// Input.
    pub x: &'a [f32],
    /// `[batch, in, height, width]`.
    pub x_shape: [usize; 4],
    /// `[out, in, kernel rows, kernel columns]`.
    pub weight: &'a [f32],
    /// Output channels.
    pub out: usize,
}

/// Gradients of the input, weight, and bias of a convolution.
pub struct Gradients {
    /// Input gradient; `None` if it was not requested.
    pub x: Option<Vec<f32>>,
    /// Weight gradient.
    pub weight: Vec<f32>,
    /// Bias gradient.
    pub bias: Vec<f32>,
}

/// Number of parts of the batch, each of which adds up a gradient of the weight. It is fixed so that sums are bitwise
/// identical for any number of threads.
const PARTS: usize = 16;

/// Number of output pixels from which a product is wide enough: with fewer, register tiles stay half empty, and a
/// gradient of the weight is read and written for little work.
pub(super) const WIDE: usize = 128;

/// Scratch memory of a thread.
struct Scratch {
    windows: Vec<f32>,
    /// Outputs or their gradients: `[out, image · output pixel]`.
    outputs: Vec<f32>,
}

impl DenseConv2d<'_> {
    /// Returns the output, `[batch, out, height', width']`. Threads share the images or, if there are fewer images
    /// than threads, strips of images or rows of the weight.
    pub fn forward(&self, bias: &[f32]) -> Vec<f32> {
        let [batch, _, height, width] = self.x_shape;
        let pixels: usize = self.window.output([height, width]).iter().product();
        let mut y = vec![0.0; batch * self.out * pixels];
        if self.is_pointwise() {
            self.pointwise(bias, &mut y);
        } else if batch < rayon::current_num_threads() {
            self.strips(bias, &mut y);
        } else {
            self.pictures(bias, &mut y);
        }
        y
    }

    fn pictures(&self, bias: &[f32], y: &mut [f32]) {
        let windows = self.windows();
        let (cols, pixels, picture) = (windows.rows(), windows.pixels(), windows.picture());
        let weight = View::rows(self.weight, cols);
        let few = self.together(pixels);
        let each = |scratch: &mut Scratch, (x, y): (&[f32], &mut [f32])| {
            let width = x.len() / picture * pixels;
            self.unfold(&windows, x, &mut scratch.windows);
            let outputs = &mut scratch.outputs[..self.out * width];
            let seen = View::rows(&scratch.windows, few * pixels);
            product([self.out, width, cols], outputs, false, weight, seen);
            for (number, y) in y.chunks_exact_mut(self.out * pixels).enumerate() {
                let lines = y.chunks_exact_mut(pixels).zip(outputs.chunks_exact(width)).zip(bias);
                for ((y, outputs), bias) in lines {
                    let outputs = &outputs[number * pixels..][..pixels];
                    y.iter_mut().zip(outputs).for_each(|(y, output)| *y = output + bias);
                }
            }
        };
        let [of_x, of_y] = [picture, self.out * pixels].map(|size| (few * size).max(1));
        let places = self.x.par_chunks(of_x).zip(y.par_chunks_mut(of_y));
        places.for_each_init(|| self.scratch(&windows), each);
    }

    /// Computes the output in strips, each a range of lines of output pixels.
    fn strips(&self, bias: &[f32], y: &mut [f32]) {
        let [batch, channels, height, width] = self.x_shape;
        let [lines, columns] = self.window.output([height, width]);
        let cols = self.weight.len() / self.out.max(1);
        let team = team(batch * self.out * lines * columns * cols, 0);
        let strips = strips(team.threads, batch, [lines, columns]);
        let places = Shared::new(y);
        for_each_part(batch * strips, team, |at| {
            let (number, strip) = (at / strips, part(lines, at % strips, strips));
            let windows = Windows::new(&self.window, [channels, height, width], strip.clone());
            let (pixels, picture) = (windows.pixels(), windows.picture());
            with_scratch((cols + self.out) * pixels, |scratch| {
                let (seen, outputs) = scratch.split_at_mut(cols * pixels);
                seen.fill(0.0);
                windows.unfold(&self.x[number * picture..][..picture], seen, pixels, 0);
                let (weight, seen) = (View::rows(self.weight, cols), View::rows(seen, pixels));
                product([self.out, pixels, cols], outputs, false, weight, seen);
                for (out, (outputs, bias)) in outputs.chunks_exact(pixels).zip(bias).enumerate() {
                    let to = ((number * self.out + out) * lines + strip.start) * columns;
                    for (at, output) in outputs.iter().enumerate() {
                        // SAFETY: `y` holds all outputs of all images, and only this part writes those of this strip.
                        unsafe { *places.get().add(to + at) = output + bias };
                    }
                }
            });
        });
    }

    /// Returns the gradients, given the gradient `dy` of the output.
    pub fn backward(&self, dy: &[f32], wants_x: bool) -> Gradients {
        let windows = self.windows();
        let (cols, pixels, picture) = (windows.rows(), windows.pixels(), windows.picture());
        let [batch, ..] = self.x_shape;
        let mut x = vec![0.0; if wants_x { self.x.len() } else { 0 }];
        let each = batch.div_ceil(PARTS).max(1);
        let parts: Vec<_> = {
            let mut dx = x.chunks_mut((each * picture).max(1));
            let xs = self.x.chunks((each * picture).max(1));
            let dys = dy.chunks((each * self.out * pixels).max(1));
            xs.zip(dys).map(|(x, dy)| (x, dy, dx.next())).collect()
        };
        let part = |(x, dy, dx)| self.part(&windows, x, dy, dx);
        let parts: Vec<_> = parts.into_par_iter().map(part).collect();
        let mut turned = vec![0.0; cols * self.out];
        let mut bias = vec![0.0; self.out];
        for (part, of_bias) in parts {
            turned.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            bias.iter_mut().zip(of_bias).for_each(|(sum, part)| *sum += part);
        }
        let row = |out: usize| turned[out..].iter().step_by(self.out).copied();
        let weight = (0..self.out).flat_map(row).collect();
        Gradients { x: wants_x.then_some(x), weight, bias }
    }

    /// Returns the gradients of the weight, `[in · kernel row · kernel column, out]`, and of the bias for some images;
    /// adds the gradient of `x` to `dx`.
    fn part(
        &self,
        windows: &Windows,
        x: &[f32],
        dy: &[f32],
        dx: Option<&mut [f32]>,
    ) -> (Vec<f32>, Vec<f32>) {
        let (cols, pixels, picture) = (windows.rows(), windows.pixels(), windows.picture());
        let few = self.together(pixels);
        let mut scratch = self.scratch(windows);
        let mut turned = vec![0.0; cols * self.out];
        let mut bias = vec![0.0; self.out];
        let wanted = if dx.is_some() { scratch.windows.len() } else { 0 };
        let mut seen_by = vec![0.0; wanted];
        let mut dx = dx.map(|dx| dx.chunks_mut((few * picture).max(1)));
        let pictures = x.chunks((few * picture).max(1));
        for (x, dy) in pictures.zip(dy.chunks((few * self.out * pixels).max(1))) {
            let width = x.len() / picture * pixels;
            let outputs = &mut scratch.outputs[..self.out * width];
            for (number, dy) in dy.chunks_exact(self.out * pixels).enumerate() {
                let lines = outputs.chunks_exact_mut(width).zip(dy.chunks_exact(pixels));
                for ((outputs, dy), sum) in lines.zip(&mut bias) {
                    outputs[number * pixels..][..pixels].copy_from_slice(dy);
                    *sum += dy.iter().sum::<f32>();
                }
            }
            let dy = View::rows(outputs, width);
            self.unfold(windows, x, &mut scratch.windows);
            // Computed in this order and not as `dy · windowsᵀ`: a product copies the operand that it has to
            // transpose, and the windows are the larger one.
            let seen = View::rows(&scratch.windows, few * pixels);
            product([cols, self.out, width], &mut turned, true, seen, dy.transposed());
            if let Some(dx) = dx.as_mut().and_then(Iterator::next) {
                let weight = View::rows(self.weight, cols).transposed();
                product([cols, width, self.out], &mut seen_by, false, weight, dy);
                for (number, dx) in dx.chunks_exact_mut(picture).enumerate() {
                    windows.fold(&seen_by, dx, width, number * pixels);
                }
            }
        }
        (turned, bias)
    }

    fn windows(&self) -> Windows {
        let [_, channels, height, width] = self.x_shape;
        let [lines, _] = self.window.output([height, width]);
        Windows::new(&self.window, [channels, height, width], 0..lines)
    }

    /// Returns the number of images that are unfolded together.
    fn together(&self, pixels: usize) -> usize {
        WIDE.div_ceil(pixels.max(1))
    }

    fn scratch(&self, windows: &Windows) -> Scratch {
        let width = self.together(windows.pixels()) * windows.pixels();
        let windows = vec![0.0; windows.rows() * width];
        Scratch { windows, outputs: vec![0.0; self.out * width] }
    }

    /// Unfolds a few images next to each other.
    fn unfold(&self, windows: &Windows, x: &[f32], into: &mut [f32]) {
        let pixels = windows.pixels();
        let width = self.together(pixels) * pixels;
        for (number, x) in x.chunks_exact(windows.picture()).enumerate() {
            windows.unfold(x, into, width, number * pixels);
        }
    }
}
