use libmimalloc_sys::{mi_option_set, mi_option_t};

/// The system's allocator unmaps a large tensor when it is freed, and maps the next one again: page faults took a
/// third of the time of a feed-forward block at batch 512 (kernels/RESULTS.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Option for the milliseconds after which free memory goes back to the system; the bindings have no name for it.
const PURGE_DELAY: mi_option_t = 15;
/// Milliseconds of several training steps, even of a large model.
const LONGER: std::ffi::c_long = 60_000;

/// Keeps memory from one training step to the next: steps allocate the same large tensors every time, and the system
/// clears returned pages before it reuses them.
pub fn keep_between_steps() {
    // Keeps a value that the user has set.
    if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
        // SAFETY: may be called at any time, with the number of any option.
        unsafe { mi_option_set(PURGE_DELAY, LONGER) };
    }
}

#[cfg(test)]
mod tests {
    use libmimalloc_sys::mi_option_get;

    use super::*;

    /// The default delay is a second; if mimalloc renumbers its options, this reads another value.
    #[test]
    fn the_option_is_the_delay() {
        // SAFETY: as above.
        let get = || unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(get(), 1000);
        keep_between_steps();
        assert_eq!(get(), LONGER);
    }
}
