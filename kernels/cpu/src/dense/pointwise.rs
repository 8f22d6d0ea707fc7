use super::conv2d::{DenseConv2d, WIDE};
use crate::conv2d::shares;
use crate::gemm::{View, product};
use crate::parallel::{Shared, for_each_part, part, team};

/// Minimum number of rows of the weight per thread.
const ROWS: usize = 32;

impl DenseConv2d<'_> {
    /// Returns `true` if every output pixel reads only the pixel at its own position, and an image is wide enough
    /// for a product.
    pub(super) fn is_pointwise(&self) -> bool {
        let (window, [.., height, width]) = (&self.window, self.x_shape);
        let plain = window.kernel == [1, 1] && window.stride == [1, 1];
        plain && window.padding == [(0, 0); 2] && height * width >= WIDE
    }

    /// Computes the product of the weight and each image directly, without unfolding. Threads share the images or, if
    /// there are fewer images than threads, the rows of the weight.
    pub(super) fn pointwise(&self, bias: &[f32], y: &mut [f32]) {
        let [batch, channels, height, width] = self.x_shape;
        let pixels = height * width;
        let team = team(batch * self.out * pixels * channels, 0);
        // Uses whole images if there are enough, so that training is bitwise identical for any number of threads.
        let parts = if batch < team.threads { shares(team.threads, batch) } else { 1 };
        let parts = parts.clamp(1, (self.out / ROWS).max(1));
        let places = Shared::new(y);
        for_each_part(batch * parts, team, |at| {
            let (number, rows) = (at / parts, part(self.out, at % parts, parts));
            let picture = View::rows(&self.x[number * channels * pixels..], pixels);
            let weight = View::rows(&self.weight[rows.start * channels..], channels);
            // SAFETY: `y` holds all rows of all images, and only this part writes these.
            let y = unsafe {
                let first = places.get().add((number * self.out + rows.start) * pixels);
                std::slice::from_raw_parts_mut(first, rows.len() * pixels)
            };
            product([rows.len(), pixels, channels], y, false, weight, picture);
            for (y, bias) in y.chunks_exact_mut(pixels).zip(&bias[rows]) {
                y.iter_mut().for_each(|y| *y += bias);
            }
        });
    }
}
