//! A CUDA driver that executes kernels on the CPU, so that programs built for CUDA run unmodified without a GPU.
//!
//! The library exports the driver API functions that `cubecl-cuda` calls (`cuInit` to `cuLaunchKernel`). Loaded as
//! `libcuda.so`, it replaces the driver: kernels arrive as the PTX that NVRTC generates and are executed instruction by
//! instruction, including `mma` and `wgmma`, as PTX ISA 9.0 describes them.
//!
//! It is stricter than a device. Fresh memory is filled with NaN. Asynchronous copies and `wgmma` complete as late as
//! permitted. Each of the following fails the launch with one message on standard error: an access outside every
//! allocation, a misaligned access, two warps that access a byte of shared memory, one of them writing, without a
//! barrier in between, a read of bytes that an asynchronous copy is still writing, and a diverged warp at a barrier.
//! The device is lost from then on, as a real one is. An instruction that is not emulated is reported when its module
//! is loaded.
//!
//! It reports compute capability 9.0 (Hopper), or the one that `CUDA_EMULATOR_ARCH` names (e.g. 80). Tiled tensor maps,
//! bulk copies and `mbarrier`, which Burn's own Hopper kernels need, are executed too. Accesses that are ordered only
//! by an `mbarrier` cannot be distinguished from races here: a block that uses one is not checked for races, only for
//! accesses to bytes that an asynchronous copy is still writing.
//!
//! With `CUDA_EMULATOR_COUNTS` set, it prints for each launch what determines its speed on any device: the instructions
//! that warps issue, the products on tensor cores, the wavefronts of shared memory (bank conflicts) and the sectors of
//! global memory (uncoalesced accesses), the latter two next to the minimum that could hold the same bytes.
//!
//! It predicts neither time nor what PTX leaves to the hardware: the order of summation (f64 here, rounded once per
//! instruction) and the last bits of approximate functions.

#![cfg(target_pointer_width = "64")]

mod driver;
mod instructions;
mod machine;
#[cfg(test)]
mod tests;
mod text;
