//! What a multiplication would take: a small model of every kernel and of the dense side, Burn's product and our
//! convolution, measured once per machine.
//!
//! A call on `n` tokens, or output pixels, takes `call + kept · k + cells · c + edges · e`: the kept weights; the cells,
//! for what is done once per block (or per weight of a dense matrix); rows and columns together, for what is transposed
//! or copied. The four coefficients are measured for some `n` ([`measure`]) and the time between them is drawn straight
//! ([`curves`]). A weight that is larger than the caches adds a time for each of its other bytes: they come from memory.

mod cache;
mod cells;
mod curves;
mod fit;
mod measure;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::{Isa, Kernel};
use crate::Layout;
use curves::Curves;

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
    /// Seconds of the dense side.
    pub(crate) dense: f64,
}

/// The fastest kernel for `n` tokens.
pub(crate) fn choose(matrix: &Matrix, n: usize, isa: Isa) -> Chosen {
    costs().choose(matrix, n, isa)
}

/// The fastest kernel for a convolution with `n` output pixels, among those that take tiles.
pub(crate) fn choose_conv2d(matrix: &Matrix, n: usize, isa: Isa) -> Chosen {
    costs().choose_conv2d(matrix, n, isa)
}

/// What everything takes on a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Costs {
    /// The machine they were measured on.
    machine: String,
    products: Curves,
    convolutions: Curves,
    /// Nanoseconds of a byte from memory.
    memory: f64,
}

impl Costs {
    fn choose(&self, matrix: &Matrix, n: usize, isa: Isa) -> Chosen {
        let candidates = Kernel::candidates(matrix.layout, n, isa);
        self.products.choose(candidates, matrix, n, self.memory)
    }

    fn choose_conv2d(&self, matrix: &Matrix, n: usize, isa: Isa) -> Chosen {
        let candidates =
            Kernel::candidates(matrix.layout, n, isa).filter(|kernel| kernel.takes_tiles());
        self.convolutions.choose(candidates, matrix, n, self.memory)
    }
}

/// The costs of this machine. The first call of a process reads them from the user's cache folder; the
/// first on a machine measures them, which takes three seconds. While one thread does, and where
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

    #[test]
    fn what_is_expected_to_be_slower_than_dense_says_so() {
        let isa = Isa::detect();
        let packed = |layout, zeros: f64| {
            let kept = ((1.0 - zeros) * (1024 * 1024) as f64) as usize;
            Matrix { rows: 1024, cols: 1024, layout, kept }
        };
        let grouped = packed(Layout::Grouped { vector: 32 }, 0.9);
        for n in [1, 16, 128, 1024] {
            let chosen = built_in().choose(&grouped, n, isa);
            assert!(chosen.sparse < chosen.dense / 4.0, "{chosen:?}");
        }
        let chosen = built_in().choose_conv2d(&grouped, 1024, isa);
        assert!(chosen.sparse < chosen.dense / 4.0, "{chosen:?}");
        // Single weights at a sparsity that skips less work than gathering adds.
        let chosen = built_in().choose(&packed(Layout::Rows, 0.3), 512, isa);
        assert!(chosen.sparse > chosen.dense, "{chosen:?}");
        let chosen = built_in().choose_conv2d(&packed(Layout::Rows, 0.3), 512, isa);
        assert!(chosen.sparse > chosen.dense, "{chosen:?}");
    }

    #[test]
    fn more_pixels_are_never_expected_to_take_less_time() {
        let (isa, balanced) = (Isa::detect(), Layout::Balanced { block: 32, kept: 8 });
        for layout in [Layout::Grouped { vector: 16 }, balanced, Layout::Rows] {
            for channels in [16, 32, 64] {
                let cols = 9 * channels;
                let matrix = Matrix { rows: channels, cols, layout, kept: channels * cols / 4 };
                let chosen = |side: usize| built_in().choose_conv2d(&matrix, side * side, isa);
                for (fewer, more) in
                    [4, 8, 16, 32].map(chosen).into_iter().zip([8, 16, 32, 64].map(chosen))
                {
                    assert!(
                        fewer.sparse < more.sparse && fewer.dense < more.dense,
                        "{fewer:?} {more:?}"
                    );
                }
            }
        }
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
                    let matrix = Matrix { rows: 64, cols: 64, layout, kept: 1024 };
                    for kernel in Kernel::candidates(layout, n, isa) {
                        let subject = curves::subject(kernel, layout);
                        let known = |curves: &Curves| {
                            let seconds = curves.predict(subject, &matrix, n);
                            assert!(seconds > 0.0 && seconds < 1.0, "{subject}: {seconds}");
                        };
                        known(&built_in().products);
                        if kernel.takes_tiles() {
                            known(&built_in().convolutions);
                        }
                    }
                    let chosen = built_in().choose_conv2d(&matrix, n, isa);
                    assert!(chosen.dense > 0.0 && chosen.dense < 1.0, "{chosen:?}");
                }
            }
        }
    }
}
