use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use burn::tensor::module::linear;

use super::cells::{self, Cell, tensor};
use super::fit::{Sample, fit};
use crate::cost::Tables;
use crate::cost::curves::{CACHED, Curves, DENSE, bytes};
use crate::{Layout, PackedShape};

/// Rows and columns of a weight that is too large for any cache: 64 MB.
const LARGE: (usize, usize) = (4096, 4096);

/// Number of rounds over the whole table, of which the fastest run of every cell counts: other activity on the
/// machine can only slow a run down, and rarely lasts through all rounds.
const ROUNDS: usize = 5;

/// Minimum seconds and runs of a cell of the table in each round; the first run has cold caches.
const SECONDS: f64 = 150e-6;
const RUNS: usize = 3;

/// Measures the costs of every kernel and of the dense side.
pub(super) fn measure(machine: String) -> Tables {
    let (mut products, mut convolutions) = (cells::products(), cells::convolutions());
    for _ in 0..ROUNDS {
        for cell in products.iter_mut().chain(&mut convolutions) {
            cell.best = cell.best.min(fastest(&cell.run));
        }
    }
    let products = fitted(&products, &cells::TOKENS);
    let convolutions = fitted(&convolutions, &cells::PIXELS.map(|shape| shape.iter().product()));
    let memory = memory(&products);
    Tables { machine, products, convolutions, memory, times_gpus: true }
}

/// Fits the coefficients that best explain the times of these cells.
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

/// Measures the nanoseconds that each byte from memory adds, with a dense product of one token.
fn memory(cached: &Curves) -> f64 {
    let (rows, cols) = LARGE;
    let shape = PackedShape::new(rows, cols, Layout::Rows, 0);
    let (x, dense) = (tensor([1, cols]), tensor([cols, rows]));
    let run = move || {
        black_box(linear(x.clone(), dense.clone(), None));
    };
    let best = (0..ROUNDS).map(|_| fastest(&run)).fold(f64::INFINITY, f64::min);
    let extra = best - cached.predict(DENSE, &shape, 1);
    (1e9 * extra / (bytes(&shape, DENSE) - CACHED) as f64).max(0.0)
}

/// Returns the seconds of the fastest of several runs.
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
