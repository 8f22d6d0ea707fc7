use libmimalloc_sys::{mi_option_set, mi_option_t};

/// The system's returns a large tensor's memory when it is freed and maps it anew for the next: page faults
/// took a third of a feed-forward block at batch 512 (kernels/RESULTS.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Milliseconds after which memory that is free goes back to the system; the bindings have no name for it.
const PURGE_DELAY: mi_option_t = 15;
/// Some training steps, also of a large model.
const LONGER: std::ffi::c_long = 60_000;

/// Keeps memory from one training step to the next. Steps ask for the same large tensors every time, and a page
/// that was given back has to be cleared before it is given again.
pub fn keep_between_steps() {
    // Whoever sets it has the last word.
    if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
        // SAFETY: may be called at any time, with the number of any option.
        unsafe { mi_option_set(PURGE_DELAY, LONGER) };
    }
}

#[cfg(test)]
mod tests {
    use libmimalloc_sys::mi_option_get;

    use super::*;

    /// A second is mimalloc's own delay: where its options are renumbered, this is another.
    #[test]
    fn what_is_set_is_the_delay() {
        // SAFETY: as above.
        let get = || unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(get(), 1000);
        keep_between_steps();
        assert_eq!(get(), LONGER);
    }
}
