//! Passes of batch normalization over the pixels of one channel in one image.

use std::mem::MaybeUninit;

use crate::simd::{Simd, Work};

/// Number of f32 partial sums, enough to fill vectors; the partial sums of a plane are added up in f64.
const LANES: usize = 32;

fn total(lanes: [f32; LANES]) -> f64 {
    lanes.iter().map(|&lane| f64::from(lane)).sum()
}

pub(super) struct Sum<'a> {
    pub(super) x: &'a [f32],
}

impl Work for Sum<'_> {
    type Output = f64;

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> f64 {
        let (chunks, rest) = self.x.as_chunks::<LANES>();
        let mut lanes = [0.0; LANES];
        for x in chunks {
            for lane in 0..LANES {
                lanes[lane] += x[lane];
            }
        }
        total(lanes) + rest.iter().map(|&x| f64::from(x)).sum::<f64>()
    }
}

pub(super) struct Squares<'a> {
    pub(super) x: &'a [f32],
    pub(super) mean: f32,
}

impl Work for Squares<'_> {
    type Output = f64;

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> f64 {
        let square = |x: f32| (x - self.mean) * (x - self.mean);
        let (chunks, rest) = self.x.as_chunks::<LANES>();
        let mut lanes = [0.0; LANES];
        for x in chunks {
            for lane in 0..LANES {
                lanes[lane] += square(x[lane]);
            }
        }
        total(lanes) + rest.iter().map(|&x| f64::from(square(x))).sum::<f64>()
    }
}

pub(super) struct Normalized<'a> {
    pub(super) x: &'a [f32],
    pub(super) shortcut: Option<&'a [f32]>,
    pub(super) y: &'a mut [MaybeUninit<f32>],
    pub(super) mean: f32,
    pub(super) scale: f32,
    pub(super) shift: f32,
}

impl Work for Normalized<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { mean, scale, shift, .. } = self;
        let normalized = |x: f32| (x - mean) * scale + shift;
        // Written this way so that NaN stays NaN.
        let relu = |y: f32| if y < 0.0 { 0.0 } else { y };
        let places = self.y.iter_mut().zip(self.x);
        match self.shortcut {
            None => {
                for (y, &x) in places {
                    y.write(relu(normalized(x)));
                }
            }
            Some(shortcut) => {
                for ((y, &x), &shortcut) in places.zip(shortcut) {
                    y.write(relu(normalized(x) + shortcut));
                }
            }
        }
    }
}

/// Writes the gradient that passes through the ReLU to `d`, and returns it with `[Σ d, Σ d · (x - mean)]`.
pub(super) struct Through<'a, 'd> {
    pub(super) x: &'a [f32],
    pub(super) y: &'a [f32],
    pub(super) dy: &'a [f32],
    pub(super) d: &'d mut [MaybeUninit<f32>],
    pub(super) mean: f32,
}

impl<'d> Work for Through<'_, 'd> {
    type Output = (&'d [f32], [f64; 2]);

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> Self::Output {
        let len = self.x.len();
        assert_eq!([self.y.len(), self.dy.len(), self.d.len()], [len; 3]);
        let through = |y: f32, dy: f32| if y <= 0.0 { 0.0 } else { dy };
        let (xs, x) = self.x.as_chunks::<LANES>();
        let (ys, y) = self.y.as_chunks::<LANES>();
        let (dys, dy) = self.dy.as_chunks::<LANES>();
        let (ds, d) = self.d.as_chunks_mut::<LANES>();
        let (mut sums, mut products) = ([0.0; LANES], [0.0; LANES]);
        for (((x, y), dy), d) in xs.iter().zip(ys).zip(dys).zip(ds) {
            for lane in 0..LANES {
                let value = *d[lane].write(through(y[lane], dy[lane]));
                sums[lane] += value;
                products[lane] += value * (x[lane] - self.mean);
            }
        }
        let (mut sum, mut product) = (total(sums), total(products));
        for (((x, y), dy), d) in x.iter().zip(y).zip(dy).zip(d) {
            let value = *d.write(through(*y, *dy));
            sum += f64::from(value);
            product += f64::from(value * (x - self.mean));
        }
        // SAFETY: the chunks and the rest cover the whole slice, and all four slices have the same length.
        (unsafe { self.d.assume_init_ref() }, [sum, product])
    }
}

/// Writes the gradient of `x` to `dx`.
pub(super) struct Back<'a> {
    pub(super) x: &'a [f32],
    pub(super) d: &'a [f32],
    pub(super) dx: &'a mut [MaybeUninit<f32>],
    pub(super) mean: f32,
    pub(super) scale: f32,
    pub(super) drift: f32,
    pub(super) stretch: f32,
}

impl Work for Back<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { mean, scale, drift, stretch, .. } = self;
        for ((dx, x), d) in self.dx.iter_mut().zip(self.x).zip(self.d) {
            dx.write(scale * (d - drift - (x - mean) * stretch));
        }
    }
}
