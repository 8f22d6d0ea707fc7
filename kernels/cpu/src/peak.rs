//! Peak throughput of the CPU.

use std::time::Instant;

use rayon::prelude::*;

use super::simd::{Isa, Simd, Work, dispatch};

/// Measures the GFLOP/s of all rayon threads executing only multiply-adds in registers: the best of the short runs
/// within a tenth of a second.
pub fn peak_gflops() -> f64 {
    let (isa, threads) = (Isa::detect(), rayon::current_num_threads());
    let run = || {
        let started = Instant::now();
        let work: usize =
            (0..threads).into_par_iter().with_max_len(1).map(|_| dispatch(isa, Chains)).sum();
        2e-9 * work as f64 / started.elapsed().as_secs_f64()
    };
    let (started, mut best) = (Instant::now(), 0.0_f64);
    while started.elapsed().as_secs_f64() < 0.1 {
        best = best.max(run());
    }
    best
}

/// Independent chains of multiply-adds, more than enough to hide the latency of one.
struct Chains;

impl Work for Chains {
    /// Number of multiply-adds done.
    type Output = usize;

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> usize {
        const CHAINS: usize = 12;
        const ROUNDS: usize = 200_000;
        let mut lanes = [0.0_f32; 16];
        // SAFETY: `lanes` holds the longest vector.
        unsafe {
            let (a, b) =
                (S::splat(std::hint::black_box(0.999)), S::splat(std::hint::black_box(1e-3)));
            let mut sums = [S::zero(); CHAINS];
            for _ in 0..ROUNDS {
                for sum in &mut sums {
                    *sum = S::fma(a, *sum, b);
                }
            }
            for sum in sums {
                S::store(lanes.as_mut_ptr(), sum);
                std::hint::black_box(&lanes);
            }
        }
        CHAINS * ROUNDS * S::LANES
    }
}
