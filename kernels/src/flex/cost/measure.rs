use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use burn::tensor::module::linear;

use super::cells::{self, Cell, tensor};
use super::curves::{CACHED, Curves, DENSE};
use super::fit::{Sample, fit};
use super::{Costs, Matrix};
use crate::Layout;

/// Rows and columns of a weight that no cache keeps: 64 MB.
const LARGE: (usize, usize) = (4096, 4096);

/// Rounds over the whole table, of which the fastest run of every cell counts: whatever else goes on on
/// the machine can only slow a run, and rarely lasts through all of them.
const ROUNDS: usize = 5;

/// Seconds and runs that a cell of the table takes in each at least; the first run finds cold caches.
const SECONDS: f64 = 150e-6;
const RUNS: usize = 3;

/// Times everything that can be chosen.
pub(super) fn measure() -> Costs {
    let (mut products, mut convolutions) = (cells::products(), cells::convolutions());
    for _ in 0..ROUNDS {
        for cell in products.iter_mut().chain(&mut convolutions) {
            cell.best = cell.best.min(fastest(&cell.run));
        }
    }
    let products = fitted(&products, &cells::TOKENS);
    let convolutions = fitted(&convolutions, &cells::PIXELS.map(|shape| shape.iter().product()));
    let memory = memory(&products);
    Costs { machine: String::new(), products, convolutions, memory }
}

/// The coefficients that explain the times of these cells best.
fn fitted(cells: &[Cell], tokens: &[usize]) -> Curves {
    let mut samples: BTreeMap<&str, Vec<Vec<Sample<4>>>> = BTreeMap::new();
    for cell in cells {
        let curve = samples.entry(cell.subject).or_default();
        curve.resize(curve.len().max(cell.at + 1), Vec::new());
        curve[cell.at].push((cell.terms, cell.best));
    }
    let fitted = |samples: &Vec<_>| fit(samples).map(|seconds| seconds * 1e9);
    let nanoseconds = samples
        .into_iter()
        .map(|(subject, curve)| (subject.to_string(), curve.iter().map(fitted).collect()));
    Curves { tokens: tokens.to_vec(), nanoseconds: nanoseconds.collect() }
}

/// Nanoseconds that a byte from memory adds, by a dense product with one token.
fn memory(cached: &Curves) -> f64 {
    let (rows, cols) = LARGE;
    let matrix = Matrix { rows, cols, layout: Layout::Rows, kept: 0 };
    let (x, dense) = (tensor([1, cols]), tensor([cols, rows]));
    let run = move || {
        black_box(linear(x.clone(), dense.clone(), None));
    };
    let best = (0..ROUNDS).map(|_| fastest(&run)).fold(f64::INFINITY, f64::min);
    let extra = best - cached.predict(DENSE, &matrix, 1);
    (1e9 * extra / (matrix.bytes(DENSE) - CACHED) as f64).max(0.0)
}

/// Seconds of the fastest of some runs.
fn fastest(run: &dyn Fn()) -> f64 {
    let started = Instant::now();
    let (mut best, mut runs) = (f64::INFINITY, 0);
    while runs < RUNS || started.elapsed().as_secs_f64() < SECONDS {
        runs += 1;
        let run_started = Instant::now();
        run();
        best = best.min(run_started.elapsed().as_secs_f64());
    }
    best
}
