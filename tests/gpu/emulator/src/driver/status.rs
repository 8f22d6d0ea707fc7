//! Status codes that calls return: `CUresult`, by its numbers in `cuda.h`.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) const SUCCESS: u32 = 0;
pub(super) const INVALID_VALUE: u32 = 1;
pub(super) const OUT_OF_MEMORY: u32 = 2;
pub(super) const INVALID_DEVICE: u32 = 101;
pub(super) const INVALID_PTX: u32 = 218;
pub(super) const NOT_FOUND: u32 = 500;
pub(super) const LAUNCH_FAILED: u32 = 719;
pub(super) const NOT_SUPPORTED: u32 = 801;

/// Status of the device: `LAUNCH_FAILED` once a kernel has failed, which [`status`] then always returns.
static LOST: AtomicU32 = AtomicU32::new(SUCCESS);

/// Prints on standard error why a call fails, and returns `status`.
pub(super) fn refuse(why: &str, status: u32) -> u32 {
    eprintln!("cuda emulator: {why}");
    status
}

/// Marks the device as lost after a kernel has failed.
pub(super) fn lose(why: &str) -> u32 {
    LOST.store(LAUNCH_FAILED, Ordering::Release);
    refuse(why, LAUNCH_FAILED)
}

/// Returns success, unless a kernel has failed before.
pub(super) fn status() -> u32 {
    LOST.load(Ordering::Acquire)
}

fn describe(status: u32) -> Option<&'static CStr> {
    Some(match status {
        SUCCESS => c"CUDA_SUCCESS",
        INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        INVALID_DEVICE => c"CUDA_ERROR_INVALID_DEVICE",
        INVALID_PTX => c"CUDA_ERROR_INVALID_PTX",
        NOT_FOUND => c"CUDA_ERROR_NOT_FOUND",
        LAUNCH_FAILED => c"CUDA_ERROR_LAUNCH_FAILED",
        NOT_SUPPORTED => c"CUDA_ERROR_NOT_SUPPORTED",
        _ => return None,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: u32, name: *mut *const c_char) -> u32 {
    let Some(found) = describe(error) else { return INVALID_VALUE };
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { name.write(found.as_ptr()) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: u32, text: *mut *const c_char) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { cuGetErrorName(error, text) }
}
