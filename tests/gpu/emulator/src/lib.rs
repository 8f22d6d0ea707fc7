//! A CUDA driver that executes kernels on the CPU: what is built for CUDA runs, as it is, without a GPU.
//!
//! The library has the driver's functions that `cubecl-cuda` calls (`cuInit` to `cuLaunchKernel`). Found as
//! `libcuda.so`, it takes a driver's place: kernels arrive as the PTX that NVRTC makes of them, and are
//! executed instruction by instruction, `mma` and `wgmma` included, as PTX ISA 9.0 describes them.
//!
//! It is stricter than a device. Fresh memory holds NaN. An asynchronous copy arrives as late as it may, and so
//! does a `wgmma`. An access outside every allocation, a misaligned one, two warps that touch a byte of shared
//! memory without a barrier, a read of what a copy is still bringing, a warp that comes apart at a barrier, and
//! an instruction that is not emulated each fail the launch with one message on standard error; the device is
//! lost from then on, as a real one is.
//!
//! It is a Hopper, or what `CUDA_EMULATOR_ARCH` names (80, say). Tiled tensor maps, bulk copies and `mbarrier`, which
//! Burn's own Hopper kernels need, are executed too. What warps order by an `mbarrier` alone cannot be told from a race
//! here: a block that has one is not searched for races, only for reads of what is still on its way.
//!
//! With `CUDA_EMULATOR_COUNTS` set it prints, for each launch, what decides its speed on any device: the
//! instructions that warps issue, the wavefronts of shared memory (bank conflicts) and the sectors of global
//! memory (accesses that do not lie together), beside the fewest that could hold the same bytes.
//!
//! It says nothing about time, nor about what PTX leaves to the hardware: the order of sums (f64 here, rounded
//! once per instruction) and the last bits of approximate functions.

#![cfg(target_pointer_width = "64")]

mod driver;
mod instructions;
mod machine;
#[cfg(test)]
mod tests;
mod text;
