use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use burn_sparse_cpu::{CpuKernel, Isa};
use serde::{Deserialize, Serialize};

use super::curves::{Chosen, Curves};
use crate::PackedShape;

/// Costs of the CPU kernels and of the dense operators on a machine, on which the choice of [`select`](crate::select()) is based.
///
/// A library call never runs a benchmark: choices follow [`Costs::built_in`] until a program installs others. Measured
/// costs also allow GPU kernels to be timed when a size is first used.
///
/// ```no_run
/// use burn_sparse_kernels::Costs;
///
/// // Once per machine this takes three seconds; afterwards it reads the user's cache folder.
/// Costs::cached().install();
/// ```
///
/// Costs can be serialized, so that processes that train one model together use those of one process and run the same kernels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Tables", into = "Tables")]
pub struct Costs(Arc<Tables>);

impl From<Tables> for Costs {
    fn from(tables: Tables) -> Self {
        Self::of(tables)
    }
}

impl From<Costs> for Tables {
    fn from(costs: Costs) -> Self {
        (*costs.0).clone()
    }
}

/// Measured tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tables {
    /// Machine on which the costs were measured.
    pub(crate) machine: String,
    pub(crate) products: Curves,
    pub(crate) convolutions: Curves,
    /// Nanoseconds per byte from memory.
    pub(crate) memory: f64,
    /// `true` if GPU kernels may be timed on first use.
    #[serde(skip)]
    pub(crate) times_gpus: bool,
}

/// Costs in use, if a program has installed some.
static INSTALLED: RwLock<Option<Costs>> = RwLock::new(None);

/// Number of times that costs have been installed.
static GENERATION: AtomicU64 = AtomicU64::new(0);

impl Costs {
    pub(crate) fn of(tables: Tables) -> Self {
        Self(Arc::new(Tables { times_gpus: true, ..tables }))
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.0
    }

    /// Returns the costs of the machine that the table in this crate was measured on: two cores of a Zen 5 EPYC with
    /// AVX-512. Decode of groups that fill a half or a quarter of a vector was not measured there: its times per weight are
    /// those of whole vectors times the ratios of a Zen 3 with AVX2. Calls were measured when they assembled the weight anew
    /// each time, which takes about a microsecond.
    pub fn built_in() -> Self {
        static COSTS: OnceLock<Costs> = OnceLock::new();
        COSTS
            .get_or_init(|| {
                let text = include_str!("built_in.json");
                Self(Arc::new(serde_json::from_str(text).expect("the table of this crate")))
            })
            .clone()
    }

    /// Makes all later choices of this process follow these costs. Layers choose again on their next call.
    pub fn install(self) {
        *INSTALLED.write().unwrap_or_else(PoisonError::into_inner) = Some(self);
        GENERATION.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the installed costs, or the built-in ones.
    pub fn current() -> Self {
        let installed = INSTALLED.read().unwrap_or_else(PoisonError::into_inner);
        installed.clone().unwrap_or_else(Self::built_in)
    }

    /// Returns a number that changes whenever costs are installed: a choice made under a different number is stale.
    pub fn generation() -> u64 {
        GENERATION.load(Ordering::Acquire)
    }

    /// Returns `true` if GPU kernels may be timed when a size is first used.
    #[cfg(feature = "cubecl-backend")]
    pub(crate) fn times_gpus(&self) -> bool {
        self.0.times_gpus
    }

    /// Chooses the fastest kernel for `n` tokens.
    pub(crate) fn choose(&self, shape: &PackedShape, n: usize, isa: Isa) -> Chosen {
        let candidates = CpuKernel::candidates(shape.layout, n, isa);
        self.0.products.choose(candidates, shape, n, self.0.memory)
    }

    /// Chooses the fastest kernel for a convolution with `n` output pixels, among those that take tiles.
    pub(crate) fn choose_conv2d(&self, shape: &PackedShape, n: usize, isa: Isa) -> Chosen {
        let candidates =
            CpuKernel::candidates(shape.layout, n, isa).filter(|kernel| kernel.takes_tiles());
        self.0.convolutions.choose(candidates, shape, n, self.0.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::super::curves;
    use super::*;
    use crate::Layout;

    #[test]
    fn what_is_expected_to_be_slower_than_dense_says_so() {
        let isa = Isa::detect();
        let packed = |layout, zeros: f64| {
            let kept = ((1.0 - zeros) * (1024 * 1024) as f64) as usize;
            PackedShape::new(1024, 1024, layout, kept)
        };
        let grouped = packed(Layout::Grouped { vector: 32 }, 0.9);
        for n in [1, 16, 128, 1024] {
            let chosen = Costs::built_in().choose(&grouped, n, isa);
            assert!(chosen.sparse < chosen.dense / 4.0, "{chosen:?}");
        }
        let chosen = Costs::built_in().choose_conv2d(&grouped, 1024, isa);
        assert!(chosen.sparse < chosen.dense / 4.0, "{chosen:?}");
        // Unstructured weights at a sparsity that skips less work than gathering adds.
        let chosen = Costs::built_in().choose(&packed(Layout::Rows, 0.1), 512, isa);
        assert!(chosen.sparse > chosen.dense, "{chosen:?}");
        let chosen = Costs::built_in().choose_conv2d(&packed(Layout::Rows, 0.1), 512, isa);
        assert!(chosen.sparse > chosen.dense, "{chosen:?}");
    }

    #[test]
    fn more_pixels_are_never_expected_to_take_less_time() {
        let (isa, balanced) = (Isa::detect(), Layout::Balanced { block: 32, kept: 8 });
        for layout in [Layout::Grouped { vector: 16 }, balanced, Layout::Rows] {
            for channels in [16, 32, 64] {
                let cols = 9 * channels;
                let matrix = PackedShape::new(channels, cols, layout, channels * cols / 4);
                let chosen =
                    |side: usize| Costs::built_in().choose_conv2d(&matrix, side * side, isa);
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
                    let matrix = PackedShape::new(64, 64, layout, 1024);
                    for kernel in CpuKernel::candidates(layout, n, isa) {
                        let subject = curves::subject(kernel, layout);
                        let known = |curves: &Curves| {
                            let seconds = curves.predict(subject, &matrix, n);
                            assert!(seconds > 0.0 && seconds < 1.0, "{subject}: {seconds}");
                        };
                        known(&Costs::built_in().tables().products);
                        if kernel.takes_tiles() {
                            known(&Costs::built_in().tables().convolutions);
                        }
                    }
                    let chosen = Costs::built_in().choose_conv2d(&matrix, n, isa);
                    assert!(chosen.dense > 0.0 && chosen.dense < 1.0, "{chosen:?}");
                }
            }
        }
    }
}
