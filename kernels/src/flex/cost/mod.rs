//! What a multiplication would take: a small model of every kernel and of Burn's dense product, measured
//! once per machine.
//!
//! A call on `n` tokens takes `call + kept · k + cells · c + edges · e`: the kept weights; the cells, for
//! what is done once per block (or per weight of a dense matrix); rows and columns together, for what is
//! transposed. The four coefficients are measured for some `n` ([`measure`]) and the time between them is
//! drawn straight. A weight that is larger than [`CACHED`] adds a time for each of its other bytes: they come
//! from memory.

mod cache;
mod fit;
mod measure;

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::weight::padded;
use super::{Isa, Kernel};
use crate::Layout;

/// The size of a packed weight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) layout: Layout,
    /// Kept weights, padding included.
    pub(crate) kept: usize,
}

/// A kernel, and what the model thinks of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chosen {
    pub(crate) kernel: Kernel,
    /// Seconds of a call.
    pub(crate) sparse: f64,
    /// Seconds of Burn's dense product.
    pub(crate) dense: f64,
}

/// The fastest kernel for `n` tokens.
pub(crate) fn choose(matrix: &Matrix, n: usize, isa: Isa) -> Chosen {
    costs().choose(Kernel::candidates(matrix.layout, n, isa), matrix, n)
}

/// The same among the kernels that take tiles of tokens.
pub(crate) fn choose_tiled(matrix: &Matrix, n: usize, isa: Isa) -> Chosen {
    let candidates = Kernel::candidates(matrix.layout, n, isa);
    let tiled = candidates.filter(|kernel| matches!(kernel, Kernel::Tiles | Kernel::Rows));
    costs().choose(tiled, matrix, n)
}

/// What Burn's dense product is called in a table.
const DENSE: &str = "dense";

/// Bytes of a weight that the measured coefficients hold for: all of them stay in a cache between two calls.
const CACHED: usize = 4 << 20;

/// Vectors whose groups are measured apart, from this many rows: shorter ones fill fewer registers of a tile.
const VECTORS: [(usize, &str); 3] =
    [(4, "grouped-4-tiles"), (8, "grouped-8-tiles"), (32, "grouped-32-tiles")];

/// Blocks whose look-up is measured apart, up to this many columns: the longest of each kind of table
/// ([`super::table`]).
const BLOCKS: [(usize, &str); 4] = [
    (32, "balanced-32-look-up"),
    (64, "balanced-64-look-up"),
    (128, "balanced-128-look-up"),
    (256, "balanced-256-look-up"),
];

/// What a kernel on a layout is called in a table.
fn subject(kernel: Kernel, layout: Layout) -> &'static str {
    match (layout, kernel) {
        (Layout::Grouped { .. }, Kernel::Decode) => "grouped-decode",
        (Layout::Grouped { vector }, _) => {
            VECTORS.iter().rev().find(|(from, _)| *from <= vector).unwrap_or(&VECTORS[0]).1
        }
        (Layout::Balanced { block, .. }, Kernel::LookUp) => {
            BLOCKS.iter().find(|(up_to, _)| block <= *up_to).unwrap_or(&BLOCKS[3]).1
        }
        (Layout::Balanced { .. }, _) => "balanced-rows",
        (Layout::Rows, Kernel::Gather) => "unstructured-gather",
        (Layout::Rows, _) => "unstructured-rows",
    }
}

/// The coefficients of everything that can be chosen, at some numbers of tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Costs {
    /// The machine they were measured on.
    machine: String,
    /// Rising.
    tokens: Vec<usize>,
    /// Nanoseconds: call, kept weight, cell, edge; for each of `tokens`.
    nanoseconds: BTreeMap<String, Vec<[f64; 4]>>,
    /// Nanoseconds of a byte from memory.
    memory: f64,
}

impl Costs {
    fn choose(
        &self,
        candidates: impl Iterator<Item = Kernel>,
        matrix: &Matrix,
        n: usize,
    ) -> Chosen {
        let dense = self.predict(DENSE, matrix, n);
        let candidates = candidates.map(|kernel| {
            let sparse = self.predict(subject(kernel, matrix.layout), matrix, n);
            Chosen { kernel, sparse, dense }
        });
        candidates.min_by(|a, b| a.sparse.total_cmp(&b.sparse)).expect("there is always a kernel")
    }

    /// Seconds of a call; infinity for what has not been measured.
    fn predict(&self, subject: &str, matrix: &Matrix, n: usize) -> f64 {
        let from_memory = matrix.bytes(subject).saturating_sub(CACHED);
        self.predict_cached(subject, matrix, n) + 1e-9 * self.memory * from_memory as f64
    }

    /// Seconds of a call whose weight is in a cache.
    fn predict_cached(&self, subject: &str, matrix: &Matrix, n: usize) -> f64 {
        let Some(curve) = self.nanoseconds.get(subject).filter(|curve| !curve.is_empty()) else {
            return f64::INFINITY;
        };
        let terms = matrix.terms(subject);
        let at = |i: usize| 1e-9 * (0..4).map(|t| curve[i][t] * terms[t]).sum::<f64>();
        let tokens = &self.tokens[..curve.len().min(self.tokens.len())];
        let above = tokens.partition_point(|&measured| measured < n);
        match above {
            0 => at(0),
            _ if above == tokens.len() => at(above - 1) * n as f64 / tokens[above - 1] as f64,
            _ => {
                let (low, high) = (tokens[above - 1], tokens[above]);
                let share = (n - low) as f64 / (high - low) as f64;
                at(above - 1) * (1.0 - share) + at(above) * share
            }
        }
    }
}

impl Matrix {
    /// Of the weight, in f32.
    fn bytes(&self, subject: &str) -> usize {
        match self.layout {
            _ if subject == DENSE => 4 * self.rows * self.cols,
            Layout::Grouped { vector } => 4 * (self.kept + self.kept / vector),
            Layout::Balanced { .. } => 5 * self.kept,
            Layout::Rows => 8 * self.kept,
        }
    }

    /// What the coefficients of a subject are multiplied with.
    fn terms(&self, subject: &str) -> [f64; 4] {
        let cells = (self.rows * self.cols) as f64;
        let cells = match self.layout {
            _ if subject == DENSE => cells,
            Layout::Grouped { vector } => cells / vector as f64,
            Layout::Balanced { block, .. } => cells / block as f64,
            Layout::Rows => cells,
        };
        let kept = if subject == DENSE { cells } else { self.kept as f64 };
        let edges = match self.layout {
            Layout::Balanced { block, .. } if subject != DENSE => {
                self.rows + padded(self.cols, block)
            }
            _ => self.rows + self.cols,
        };
        [1.0, kept, cells, edges as f64]
    }
}

/// The costs of this machine. The first call of a process reads them from the user's cache folder; the
/// first on a machine measures them, which takes two seconds. While one thread does, and where
/// `BURN_SPARSE_COSTS=built-in` asks for it, those of the machine this was written on serve.
fn costs() -> &'static Costs {
    static COSTS: OnceLock<Costs> = OnceLock::new();
    static BUSY: AtomicBool = AtomicBool::new(false);
    if let Some(costs) = COSTS.get() {
        return costs;
    }
    // Nobody waits: a thread that measures may be given other work, which asks again.
    if measures_nothing() || BUSY.swap(true, Ordering::AcqRel) {
        return built_in();
    }
    COSTS.get_or_init(|| cache::read_or(measure::measure))
}

/// Whether `BURN_SPARSE_COSTS=built-in` asks to measure nothing.
pub(crate) fn measures_nothing() -> bool {
    std::env::var("BURN_SPARSE_COSTS").is_ok_and(|costs| costs == "built-in")
}

/// Measured on two cores of a Zen 5 EPYC with AVX-512.
fn built_in() -> &'static Costs {
    static COSTS: OnceLock<Costs> = OnceLock::new();
    COSTS.get_or_init(|| {
        serde_json::from_str(include_str!("built_in.json")).expect("a table of this crate's own")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(rows: usize, cols: usize, kept: usize) -> Matrix {
        Matrix { rows, cols, layout: Layout::Rows, kept }
    }

    #[test]
    fn time_between_measured_tokens_lies_on_a_line_and_grows_in_proportion_past_them() {
        let curve = vec![[10.0, 0.0, 0.0, 0.0], [30.0, 0.0, 0.0, 0.0]];
        let costs = Costs {
            machine: String::new(),
            tokens: vec![4, 8],
            nanoseconds: [(DENSE.into(), curve)].into(),
            memory: 2.0,
        };
        let matrix = matrix(2, 2, 1);
        let seconds = [1, 4, 5, 6, 8, 16].map(|n| costs.predict(DENSE, &matrix, n) * 1e9);
        for (found, expected) in seconds.into_iter().zip([10.0, 10.0, 15.0, 20.0, 30.0, 60.0]) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        assert_eq!(costs.predict("unheard-of", &matrix, 1), f64::INFINITY);
    }

    #[test]
    fn what_does_not_fit_the_cache_takes_its_time_from_memory() {
        let curve = vec![[10.0, 0.0, 0.0, 0.0]];
        let costs = Costs {
            machine: String::new(),
            tokens: vec![1],
            nanoseconds: [(DENSE.into(), curve.clone()), ("unstructured-rows".into(), curve)]
                .into(),
            memory: 0.5,
        };
        let large = matrix(1025, 1024, 1024 * 512 + 3);
        let seconds = |subject| costs.predict(subject, &large, 1) * 1e9;
        // A row of 1024 floats; three weights of eight bytes with their ids.
        assert!((seconds(DENSE) - (10.0 + 2048.0)).abs() < 1e-6);
        assert!((seconds("unstructured-rows") - (10.0 + 12.0)).abs() < 1e-6);
    }

    #[test]
    fn what_is_expected_to_be_slower_than_dense_says_so() {
        let isa = Isa::detect();
        let packed = |layout, zeros: f64| {
            let kept = ((1.0 - zeros) * (1024 * 1024) as f64) as usize;
            Matrix { rows: 1024, cols: 1024, layout, kept }
        };
        let grouped = Layout::Grouped { vector: 32 };
        for n in [1, 16, 128, 1024] {
            let chosen =
                built_in().choose(Kernel::candidates(grouped, n, isa), &packed(grouped, 0.9), n);
            assert!(chosen.sparse < chosen.dense / 4.0, "{chosen:?}");
        }
        // Single weights at a sparsity that skips less work than gathering adds.
        let chosen = built_in().choose(
            Kernel::candidates(Layout::Rows, 512, isa),
            &packed(Layout::Rows, 0.3),
            512,
        );
        assert!(chosen.sparse > chosen.dense, "{chosen:?}");
    }

    #[test]
    fn the_built_in_table_knows_every_kernel_of_every_instruction_set() {
        let layouts = [
            Layout::Grouped { vector: 1 },
            Layout::Grouped { vector: 8 },
            Layout::Grouped { vector: 64 },
            Layout::Balanced { block: 25, kept: 6 },
            Layout::Balanced { block: 50, kept: 12 },
            Layout::Balanced { block: 100, kept: 25 },
            Layout::Balanced { block: 256, kept: 64 },
            Layout::Rows,
        ];
        for layout in layouts {
            for isa in Isa::available() {
                for n in [1, 9] {
                    for kernel in Kernel::candidates(layout, n, isa) {
                        let subject = subject(kernel, layout);
                        let matrix = Matrix { layout, ..matrix(64, 64, 1024) };
                        let seconds = built_in().predict(subject, &matrix, n);
                        assert!(seconds > 0.0 && seconds < 1.0, "{subject}: {seconds}");
                    }
                }
            }
        }
    }
}
