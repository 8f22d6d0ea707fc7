use libmimalloc_sys::{mi_option_get, mi_option_set, mi_option_t};

/// The system's returns a large tensor's memory when it is freed and maps it anew for the next: page faults
/// took a third of a feed-forward block at batch 512 (kernels/RESULTS.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Milliseconds after which memory that is free goes back to the system; the bindings have no name for it.
const PURGE_DELAY: mi_option_t = 15;
/// What that is where nobody has set it.
const USUAL: std::ffi::c_long = 10;
/// Some training steps.
const LONGER: std::ffi::c_long = 10_000;

/// Keeps memory from one training step to the next. Steps ask for the same large tensors every time, and a page
/// that was given back has to be cleared before it is given again: up to a quarter of a Transformer's step.
pub fn keep_between_steps() {
    // SAFETY: both functions may be called at any time, with any number of an option.
    unsafe {
        // `MIMALLOC_PURGE_DELAY` in the environment has the last word.
        if mi_option_get(PURGE_DELAY) == USUAL {
            mi_option_set(PURGE_DELAY, LONGER);
        }
    }
}
