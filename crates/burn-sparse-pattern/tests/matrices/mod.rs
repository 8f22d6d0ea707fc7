//! Matrices for testing the search: without structure, with heavy tails, with planted groups.

#![allow(dead_code, reason = "every user takes its part")]

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Row-major weights `[rows, cols]`.
pub struct Matrix {
    pub kind: &'static str,
    pub rows: usize,
    pub cols: usize,
    pub weights: Vec<f32>,
}

impl Matrix {
    pub fn scores(&self) -> Vec<f32> {
        self.weights.iter().map(|weight| weight.abs()).collect()
    }

    /// Returns one matrix of each kind.
    pub fn kinds(rows: usize, cols: usize, vector: usize, seed: u64) -> Vec<Self> {
        vec![
            Self::normal(rows, cols, seed),
            Self::heavy_tailed(rows, cols, seed),
            Self::planted(rows, cols, vector, seed),
            Self::scaled(rows, cols, seed),
            Self::with_ties(rows, cols, seed),
        ]
    }

    fn new(
        kind: &'static str,
        (rows, cols): (usize, usize),
        seed: u64,
        mut weight: impl FnMut(usize, usize, &mut ChaCha8Rng) -> f32,
    ) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let weights = (0..rows * cols).map(|i| weight(i / cols, i % cols, &mut random)).collect();
        Self { kind, rows, cols, weights }
    }

    /// Creates independent normal weights, without any structure.
    pub fn normal(rows: usize, cols: usize, seed: u64) -> Self {
        Self::new("normal", (rows, cols), seed, |_, _, random| normal(random))
    }

    /// Creates cubes of normal weights, few of which are large.
    pub fn heavy_tailed(rows: usize, cols: usize, seed: u64) -> Self {
        Self::new("heavy-tailed", (rows, cols), seed, |_, _, random| normal(random).powi(3))
    }

    /// Creates weights whose rows and columns have different scales, as in trained layers.
    pub fn scaled(rows: usize, cols: usize, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(!seed);
        let tall: Vec<f32> = (0..rows).map(|_| normal(&mut random).exp()).collect();
        let wide: Vec<f32> = (0..cols).map(|_| normal(&mut random).exp()).collect();
        Self::new("scaled", (rows, cols), seed, |row, col, random| {
            normal(random) * tall[row] * wide[col]
        })
    }

    /// Creates weights with few different values and many zeros.
    pub fn with_ties(rows: usize, cols: usize, seed: u64) -> Self {
        Self::new("ties", (rows, cols), seed, |_, _, random| random.random_range(0..3_u8).into())
    }

    /// Creates rows that belong to group `row % groups`, which prefers a quarter of the columns, and
    /// adds noise.
    pub fn planted(rows: usize, cols: usize, vector: usize, seed: u64) -> Self {
        let groups = rows.div_ceil(vector);
        let mut random = ChaCha8Rng::seed_from_u64(!seed);
        let preferred: Vec<bool> = (0..groups * cols).map(|_| random.random_bool(0.25)).collect();
        Self::new("planted", (rows, cols), seed, |row, col, random| {
            let base = if preferred[row % groups * cols + col] { 1.0 } else { 0.0 };
            base + 0.3 * normal(random)
        })
    }

    /// Returns the row order that [`Self::planted`] planted.
    pub fn planted_order(rows: usize, vector: usize) -> Vec<u32> {
        let groups = rows.div_ceil(vector);
        (0..groups).flat_map(|g| (g..rows).step_by(groups).map(|row| row as u32)).collect()
    }
}

/// Returns a standard normal value (Box-Muller).
fn normal(random: &mut ChaCha8Rng) -> f32 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    (radius * (std::f64::consts::TAU * random.random::<f64>()).cos()) as f32
}
