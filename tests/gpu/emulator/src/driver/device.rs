//! The only device: a Hopper with 132 multiprocessors, or the older one that `CUDA_EMULATOR_ARCH` names (e.g. 80).

use std::ffi::{c_char, c_void};

use super::status::{INVALID_DEVICE, INVALID_VALUE, SUCCESS, status};

/// Default limit of a launch's shared memory, in bytes, and the maximum that a program may request instead.
pub(super) const USUAL_SHARED: u32 = 48 << 10;
pub(super) const MOST_SHARED: u32 = 227 << 10;
/// Memory that the device reports; kernels are tested on small inputs.
const MEMORY: usize = 8 << 30;

fn architecture() -> i32 {
    let named = std::env::var("CUDA_EMULATOR_ARCH").ok();
    named.and_then(|name| name.parse().ok()).unwrap_or(90)
}

/// Returns a `CUdevice_attribute` by its number in `cuda.h`; attributes that no caller queries are 0.
fn attribute(attribute: u32) -> i32 {
    match attribute {
        // Maximum threads per block: in total, and by axis.
        1..=3 => 1024,
        4 => 64,
        // Maximum blocks by axis.
        5 => i32::MAX,
        6 | 7 => 65535,
        8 => USUAL_SHARED as i32,
        10 => 32,
        16 => 132,
        75 => architecture() / 10,
        76 => architecture() % 10,
        // Maximum shared memory per multiprocessor, and per block that opts in to more than the default.
        81 => 228 << 10,
        97 => MOST_SHARED as i32,
        _ => 0,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuInit(_: u32) -> u32 {
    status()
}

/// Writes a result and returns the status.
///
/// # Safety
///
/// `to` must be valid for a write.
pub(super) unsafe fn answer<T>(to: *mut T, value: T) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { to.write(value) };
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut i32) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { answer(version, 13000) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut i32) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { answer(count, 1) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut i32, ordinal: i32) -> u32 {
    if ordinal != 0 {
        return INVALID_DEVICE;
    }
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { answer(device, 0) }
}

/// Copies a text and its terminating NUL to `to`, which has room for `len` bytes.
unsafe fn text(to: *mut c_char, len: i32, text: &str) -> u32 {
    if text.len() >= len.max(0) as usize {
        return INVALID_VALUE;
    }
    // SAFETY: `to` has room for the text and its terminating NUL.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, text.len());
        to.add(text.len()).write(0);
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: i32, _: i32) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { text(name, len, "CUDA emulator") }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetPCIBusId(id: *mut c_char, len: i32, _: i32) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { text(id, len, "0000:00:00.0") }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut i32, which: u32, _: i32) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { answer(value, attribute(which)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, _: i32) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { answer(bytes, MEMORY) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe {
        free.write(MEMORY);
        answer(total, MEMORY)
    }
}

/// Handle of the only context; it is only ever compared.
const CONTEXT: *mut c_void = std::ptr::without_provenance_mut(1);

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, _: i32) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { answer(context, CONTEXT) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(_: i32) -> u32 {
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSetCurrent(_: *mut c_void) -> u32 {
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(context: *mut *mut c_void) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { answer(context, CONTEXT) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSynchronize() -> u32 {
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe {
        least.write(0);
        answer(greatest, 0)
    }
}
