//! Allocations and copies.

use std::ffi::c_void;

use super::device::answer;
use super::status::{INVALID_VALUE, OUT_OF_MEMORY, refuse, status};
use crate::machine::global::{self, Global};

unsafe fn allocate(to: *mut u64, bytes: usize) -> u32 {
    match global::allocate(bytes) {
        _ if bytes == 0 => INVALID_VALUE,
        // SAFETY: the caller upholds the driver API's contract.
        Some(address) => unsafe { answer(to, address) },
        None => OUT_OF_MEMORY,
    }
}

fn free(address: u64) -> u32 {
    match global::free(address) {
        true => status(),
        false => refuse(&format!("{address:#x} is freed, but no allocation"), INVALID_VALUE),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { allocate(address, bytes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocAsync(address: *mut u64, bytes: usize, _: *mut c_void) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { allocate(address, bytes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocHost_v2(pointer: *mut *mut c_void, bytes: usize) -> u32 {
    // SAFETY: the caller upholds the driver API's contract; device addresses and host pointers have the same
    // representation.
    unsafe { allocate(pointer.cast(), bytes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    free(address)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeAsync(address: u64, _: *mut c_void) -> u32 {
    free(address)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeHost(pointer: *mut c_void) -> u32 {
    free(pointer as u64)
}

/// Converts the outcome of a copy to a status and reports an error.
fn copied(done: Result<(), String>) -> u32 {
    match done {
        Ok(()) => status(),
        Err(error) => refuse(&format!("a copy: {error}"), INVALID_VALUE),
    }
}

unsafe fn host_to_device(to: u64, from: *const c_void, bytes: usize) -> Result<(), String> {
    // SAFETY: the caller upholds the driver API's contract.
    Global::now().write(to, unsafe { std::slice::from_raw_parts(from.cast(), bytes) })
}

unsafe fn device_to_host(to: *mut c_void, from: u64, bytes: usize) -> Result<(), String> {
    // SAFETY: the caller upholds the driver API's contract.
    Global::now().read(from, unsafe { std::slice::from_raw_parts_mut(to.cast(), bytes) })
}

fn device_to_device(to: u64, from: u64, bytes: usize) -> Result<(), String> {
    let mut between = vec![0; bytes];
    Global::now().read(from, &mut between)?;
    Global::now().write(to, &between)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    bytes: usize,
    _: *mut c_void,
) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    copied(unsafe { host_to_device(to, from, bytes) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: u64,
    bytes: usize,
    _: *mut c_void,
) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    copied(unsafe { device_to_host(to, from, bytes) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, _: *mut c_void) -> u32 {
    copied(device_to_device(to, from, bytes))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, _: *mut c_void) -> u32 {
    copied(Global::now().write(to, &vec![value; bytes]))
}

/// Source or destination of a [`Rectangle`].
#[repr(C)]
struct Side {
    x: usize,
    y: usize,
    /// 1 for the host, 2 for the device.
    kind: u32,
    host: *mut c_void,
    device: u64,
    array: *mut c_void,
    pitch: usize,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
struct Rectangle {
    from: Side,
    to: Side,
    width: usize,
    height: usize,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpy2DAsync_v2(copy: *const Rectangle, _: *mut c_void) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    let Rectangle { from, to, width, height } = unsafe { &*copy };
    for line in 0..*height {
        let place = |side: &Side| (side.y + line) * side.pitch + side.x;
        let (from_at, to_at) = (place(from), place(to));
        // SAFETY: the caller guarantees that the rows of both rectangles are valid.
        let done = unsafe {
            match (from.kind, to.kind) {
                (1, 2) => {
                    host_to_device(to.device + to_at as u64, from.host.byte_add(from_at), *width)
                }
                (2, 1) => {
                    device_to_host(to.host.byte_add(to_at), from.device + from_at as u64, *width)
                }
                (2, 2) => {
                    device_to_device(to.device + to_at as u64, from.device + from_at as u64, *width)
                }
                _ => Err("between memories of other kinds".into()),
            }
        };
        if let Err(error) = done {
            return copied(Err(error));
        }
    }
    status()
}
