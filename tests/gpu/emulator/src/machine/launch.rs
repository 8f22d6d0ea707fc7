//! Launches: blocks are distributed over the CPU's cores, and the warps of a block take turns.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::instructions::Kernel;
use crate::instructions::value::{LANES, Lanes};
use crate::machine::counts::Counts;
use crate::machine::global::Global;
use crate::machine::shared::Shared;
use crate::machine::warp::{Machine, Stop, Warp};
use crate::text::{Filled, Special};

/// Dimensions of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub blocks: [u32; 3],
    pub threads: [u32; 3],
    /// Dynamic shared memory in bytes, in addition to what the kernel declares.
    pub shared: usize,
}

impl Grid {
    fn threads(&self) -> usize {
        self.threads.iter().map(|n| *n as usize).product()
    }
}

/// Rounds of all warps in which no `mbarrier` changes, after which they are considered deadlocked.
const MOST_IN_VAIN: usize = 10_000;

/// Returns the offset of the dynamic shared memory: after what the kernel declares, aligned to `align` but never to
/// `2 * align`.
fn dynamic(kernel: &Kernel, align: usize) -> usize {
    let from = kernel.shared.next_multiple_of(align);
    if from.is_multiple_of(2 * align) { from + align } else { from }
}

/// Runs a kernel to completion.
pub(crate) fn launch(kernel: &Kernel, grid: Grid, parameters: &[u8]) -> Result<(), String> {
    let global = Global::now();
    let count: u64 = grid.blocks.iter().map(|n| u64::from(*n)).product();
    let next = AtomicU64::new(0);
    let failure = Mutex::new(None);
    let asked = std::env::var_os("CUDA_EMULATOR_COUNTS").is_some();
    let counts = Mutex::new(Counts::default());
    let work = || {
        loop {
            let block = next.fetch_add(1, Ordering::Relaxed);
            if block >= count {
                return;
            }
            let [x, y, _] = grid.blocks.map(u64::from);
            let index = [block % x, block / x % y, block / x / y];
            let mut of_block = Counts::default();
            let counted = asked.then_some(&mut of_block);
            let ran = run_block(kernel, grid, index, parameters, &global, counted);
            if let Ok(mut counts) = counts.lock() {
                counts.add(&of_block);
            }
            if let Err(error) = ran {
                next.store(count, Ordering::Relaxed);
                if let Ok(mut failure) = failure.lock() {
                    failure.get_or_insert(format!("block {index:?}: {error}"));
                }
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u64).min(count);
    std::thread::scope(|scope| {
        for _ in 1..cores {
            scope.spawn(work);
        }
        work();
    });
    if let (true, Ok(counts)) = (asked, counts.into_inner()) {
        report(kernel, grid, &counts);
    }
    failure.into_inner().unwrap_or_default().map_or(Ok(()), Err)
}

/// Prints the counters of a launch on standard error.
fn report(kernel: &Kernel, grid: Grid, counts: &Counts) {
    let Counts { instructions, products, shared, global } = counts;
    eprintln!(
        "cuda emulator: {} {:?} x {:?}: {instructions} instructions of warps, {products} products on tensor \
         cores, shared memory {} wavefronts (at least {}), global memory {} sectors (at least {})",
        kernel.name,
        grid.blocks,
        grid.threads,
        shared.pieces,
        shared.fewest,
        global.pieces,
        global.fewest
    );
}

fn run_block(
    kernel: &Kernel,
    grid: Grid,
    index: [u64; 3],
    parameters: &[u8],
    global: &Global,
    mut counts: Option<&mut Counts>,
) -> Result<(), String> {
    let threads = grid.threads();
    let aligned = kernel.filled.iter().map(|(_, filled)| match filled {
        Filled::DynamicShared(align) => dynamic(kernel, *align),
        _ => kernel.shared,
    });
    let mut shared = Shared::new(aligned.max().unwrap_or(kernel.shared) + grid.shared);
    let mut fences = vec![0; threads.div_ceil(LANES)];
    let mut warps: Vec<Warp> = (0..threads.div_ceil(LANES))
        .map(|id| {
            let lanes = u32::MAX >> (LANES - (threads - id * LANES).min(LANES));
            let mut warp = Warp::new(id as u16, kernel, lanes);
            for (reg, filled) in &kernel.filled {
                warp.regs[*reg as usize] = fill(*filled, kernel, grid, index, id);
            }
            warp
        })
        .collect();
    let mut stopped = vec![Stop::Turn; warps.len()];
    let (mut changes, mut in_vain) = (0, 0);
    loop {
        let mut turns = false;
        for (warp, stopped) in warps.iter_mut().zip(&mut stopped) {
            if *stopped == Stop::Turn {
                let machine = &mut Machine {
                    kernel,
                    global,
                    parameters,
                    shared: &mut shared,
                    fences: &mut fences,
                    counts: counts.as_deref_mut(),
                };
                *stopped = warp.run(machine)?;
                turns |= *stopped == Stop::Turn;
            }
        }
        if turns {
            // Warps that all wait at an `mbarrier` keep taking turns too.
            in_vain = if shared.mbarrier_changes == changes { in_vain + 1 } else { 0 };
            changes = shared.mbarrier_changes;
            if shared.has_mbarriers && in_vain > MOST_IN_VAIN {
                return Err(format!("{}: every warp waits at an mbarrier", kernel.name));
            }
            continue;
        }
        if stopped.iter().all(|stop| *stop == Stop::Ended) {
            return Ok(());
        }
        // All other warps have ended or wait at the barrier too.
        shared.barriers += 1;
        for stop in &mut stopped {
            if *stop == Stop::AtBarrier {
                *stop = Stop::Turn;
            }
        }
    }
}

/// Returns the initial value of a register in each lane of warp `id`.
fn fill(filled: Filled, kernel: &Kernel, grid: Grid, index: [u64; 3], id: usize) -> Lanes {
    let special = match filled {
        Filled::With(value) => return [value; LANES],
        Filled::DynamicShared(align) => return [dynamic(kernel, align) as u64; LANES],
        Filled::By(special) => special,
    };
    std::array::from_fn(|lane| {
        let thread = (id * LANES + lane) as u64;
        let [x, y, _] = grid.threads.map(u64::from);
        match special {
            Special::Thread(axis) => [thread % x, thread / x % y, thread / x / y][axis],
            Special::Threads(axis) => grid.threads[axis].into(),
            Special::Block(axis) => index[axis],
            Special::Blocks(axis) => grid.blocks[axis].into(),
            Special::Lane => lane as u64,
            Special::Warp => id as u64,
            Special::LanesBelow => (1 << lane) - 1,
            Special::LanesUpTo => (2 << lane) - 1,
            Special::LanesAbove => !((2 << lane) - 1) & 0xFFFF_FFFF,
            Special::LanesFrom => !((1 << lane) - 1) & 0xFFFF_FFFF,
            Special::DynamicShared => grid.shared as u64,
        }
    })
}
