use std::mem::MaybeUninit;

use rayon::prelude::*;

use super::channel::{Back, Normalized, Squares, Sum, Through};
use crate::parallel::{Shared, for_each_range, team};
use crate::simd::{Isa, dispatch};

/// Batch normalization with the operations that follow it in a residual network:
/// `y = relu((x - mean) / deviation · gamma + beta + shortcut)`.
pub struct BatchNorm<'a> {
    /// Input, of this shape.
    pub x: &'a [f32],
    /// `[batch, channels, pixels]`.
    pub shape: [usize; 3],
    /// Factors, `[channels]`.
    pub gamma: &'a [f32],
    /// Added to the variance.
    pub epsilon: f64,
}

/// Statistics of every channel.
#[derive(Debug, Clone)]
pub struct Statistics {
    /// Mean.
    pub mean: Vec<f32>,
    /// Biased variance: divided by the number of values, not by one less.
    pub variance: Vec<f32>,
}

/// Gradients of the inputs and parameters of a normalization.
pub struct Gradients {
    /// Input gradient.
    pub x: Vec<f32>,
    /// Gradient of the factors.
    pub gamma: Vec<f32>,
    /// Gradient of the shifts.
    pub beta: Vec<f32>,
    /// Shortcut gradient.
    pub shortcut: Vec<f32>,
}

impl BatchNorm<'_> {
    /// Normalizes with known statistics (Ioffe and Szegedy, 2015, algorithm 2). Returns as many values as `x` has.
    ///
    /// # Panics
    /// Panics if the slices do not have the lengths given by the shape, as do all functions here.
    pub fn by(&self, statistics: &Statistics, beta: &[f32], shortcut: Option<&[f32]>) -> Vec<f32> {
        let ([batch, channels, pixels], isa, len) = (self.shape, Isa::detect(), self.len());
        assert!(shortcut.is_none_or(|shortcut| shortcut.len() == len));
        let scales: Vec<f32> =
            (0..channels).map(|c| self.scale(c, f64::from(statistics.variance[c]))).collect();
        let mut y = Vec::with_capacity(len);
        let (out, planes) = (Shared::spare(&mut y), batch * channels);
        let team = team(0, size_of_val(self.x) * if shortcut.is_some() { 3 } else { 2 });
        for_each_range(planes, team, |planes| {
            for plane in planes {
                let (from, c) = (plane * pixels, plane % channels);
                let (mean, scale, shift) = (statistics.mean[c], scales[c], beta[c]);
                let x = &self.x[from..][..pixels];
                let shortcut = shortcut.map(|shortcut| &shortcut[from..][..pixels]);
                // SAFETY: there is room for every plane, and each plane belongs to one part.
                let y =
                    unsafe { std::slice::from_raw_parts_mut(out.get().add(from).cast(), pixels) };
                dispatch(isa, Normalized { x, shortcut, y, mean, scale, shift });
            }
        });
        // SAFETY: every plane was fully written.
        unsafe { y.set_len(len) };
        y
    }

    /// Normalizes with the statistics of the batch (Ioffe and Szegedy, 2015, algorithm 1). Returns as many values as
    /// `x` has, and the statistics. Each channel is processed by one thread and stays in its cache from one pass to the
    /// next.
    pub fn forward(&self, beta: &[f32], shortcut: Option<&[f32]>) -> (Vec<f32>, Statistics) {
        let (isa, len) = (Isa::detect(), self.len());
        assert!(shortcut.is_none_or(|shortcut| shortcut.len() == len));
        let mut y = Vec::with_capacity(len);
        let channel = |(channel, y): (usize, Vec<&mut [MaybeUninit<f32>]>)| {
            let count = (self.shape[0] * self.shape[2]) as f64;
            let sum = |x| dispatch(isa, Sum { x });
            let mean = self.planes(self.x, channel).map(sum).sum::<f64>() / count;
            let squares = |x| dispatch(isa, Squares { x, mean: mean as f32 });
            let variance = self.planes(self.x, channel).map(squares).sum::<f64>() / count;
            let scale = self.scale(channel, variance);
            let (mean, shift) = (mean as f32, beta[channel]);
            let mut shortcut = shortcut.map(|shortcut| self.planes(shortcut, channel));
            for (x, y) in self.planes(self.x, channel).zip(y) {
                let shortcut = shortcut.as_mut().and_then(Iterator::next);
                dispatch(isa, Normalized { x, shortcut, y, mean, scale, shift });
            }
            (mean, variance as f32)
        };
        let (mean, variance) =
            self.channels(&mut y).into_par_iter().enumerate().map(channel).unzip();
        // SAFETY: every plane of every channel was fully written because all slices have the same length.
        unsafe { y.set_len(len) };
        (y, Statistics { mean, variance })
    }

    /// Returns the gradients, given the output `y` and its gradient `dy`.
    pub fn backward(&self, statistics: &Statistics, y: &[f32], dy: &[f32]) -> Gradients {
        let (isa, len) = (Isa::detect(), self.len());
        assert_eq!([y.len(), dy.len()], [len; 2]);
        let (mut x, mut shortcut) = (Vec::with_capacity(len), Vec::with_capacity(len));
        let channel = |(channel, (dx, through)): (usize, (Planes<'_>, Planes<'_>))| {
            let (mean, variance) = (statistics.mean[channel], statistics.variance[channel]);
            let [mut beta, mut along] = [0.0, 0.0];
            let places = self.planes(y, channel).zip(self.planes(dy, channel)).zip(through);
            let through: Vec<&[f32]> = self
                .planes(self.x, channel)
                .zip(places)
                .map(|(x, ((y, dy), d))| {
                    let (d, [sum, product]) = dispatch(isa, Through { x, y, dy, d, mean });
                    beta += sum;
                    along += product;
                    d
                })
                .collect();
            let count = (self.shape[0] * self.shape[2]) as f64;
            let inverse = 1.0 / (f64::from(variance) + self.epsilon).sqrt();
            let scale = (f64::from(self.gamma[channel]) * inverse) as f32;
            // The statistics depend on `x` in two ways: through the mean (`drift`) and through the variance
            // (`stretch`).
            let drift = (beta / count) as f32;
            let stretch = (along / count * inverse * inverse) as f32;
            for ((x, d), dx) in self.planes(self.x, channel).zip(through).zip(dx) {
                dispatch(isa, Back { x, d, dx, mean, scale, drift, stretch });
            }
            ((along * inverse) as f32, beta as f32)
        };
        let places = self.channels(&mut x).into_par_iter().zip(self.channels(&mut shortcut));
        let (gamma, beta) = places.enumerate().map(channel).unzip();
        // SAFETY: every plane of every channel of both was fully written because all slices have the same length.
        unsafe {
            x.set_len(len);
            shortcut.set_len(len);
        }
        Gradients { x, gamma, beta, shortcut }
    }

    /// Returns the factor by which a channel's centered values are multiplied.
    fn scale(&self, channel: usize, variance: f64) -> f32 {
        (f64::from(self.gamma[channel]) / (variance + self.epsilon).sqrt()) as f32
    }

    /// Returns the number of values; panics if `x` has a different length.
    fn len(&self) -> usize {
        assert_eq!(self.x.len(), self.shape.iter().product::<usize>());
        self.x.len()
    }

    /// Iterates over one channel of every image.
    fn planes<'a>(&self, all: &'a [f32], channel: usize) -> impl Iterator<Item = &'a [f32]> {
        let [_, channels, pixels] = self.shape;
        all.chunks_exact(pixels).skip(channel).step_by(channels)
    }

    /// Returns the uninitialized planes of each channel, one per image.
    fn channels<'a>(&self, all: &'a mut Vec<f32>) -> Vec<Planes<'a>> {
        let [batch, channels, pixels] = self.shape;
        let mut found: Vec<_> = (0..channels).map(|_| Vec::with_capacity(batch)).collect();
        let places = &mut all.spare_capacity_mut()[..self.x.len()];
        for (at, plane) in places.chunks_exact_mut(pixels).enumerate() {
            found[at % channels].push(plane);
        }
        found
    }
}

type Planes<'a> = Vec<&'a mut [MaybeUninit<f32>]>;
