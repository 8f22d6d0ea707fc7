//! Modules and launches.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use super::device::{MOST_SHARED, USUAL_SHARED, answer};
use super::status::{INVALID_PTX, INVALID_VALUE, NOT_FOUND, lose, refuse, status};
use crate::instructions::{Kernel, decode};
use crate::machine::{Grid, launch};
use crate::text::kernels;

/// `CUfunction_attribute`.
const MAX_DYNAMIC_SHARED_SIZE_BYTES: u32 = 8;

/// Kernels by name. Modules are never unloaded because function handles point into them.
type Module = HashMap<String, Function>;

/// Object that a function handle points to.
struct Function {
    kernel: Kernel,
    /// Dynamic shared memory that a launch may request, in bytes.
    most_shared: AtomicU32,
}

fn load(ptx: &str) -> Result<Module, String> {
    let decoded = kernels(ptx)?.into_iter().map(|(name, text)| {
        let kernel = decode(&name, text)?;
        Ok((name, Function { kernel, most_shared: AtomicU32::new(USUAL_SHARED) }))
    });
    decoded.collect()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: *mut *mut c_void, image: *const c_void) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    let Ok(ptx) = unsafe { CStr::from_ptr(image.cast::<c_char>()) }.to_str() else {
        return refuse("a module that is no text", INVALID_PTX);
    };
    match load(ptx) {
        // SAFETY: the caller upholds the driver API's contract.
        Ok(loaded) => unsafe { answer(module, Box::into_raw(Box::new(loaded)).cast()) },
        Err(error) => refuse(&error, INVALID_PTX),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleUnload(_: *mut c_void) -> u32 {
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: *mut *mut c_void,
    module: *mut c_void,
    name: *const c_char,
) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    let (module, name) = unsafe { (&*module.cast::<Module>(), CStr::from_ptr(name)) };
    match name.to_str().ok().and_then(|name| module.get(name)) {
        // SAFETY: the caller upholds the driver API's contract.
        Some(found) => unsafe { answer(function, std::ptr::from_ref(found).cast_mut().cast()) },
        None => NOT_FOUND,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncSetAttribute(function: *mut c_void, attribute: u32, value: i32) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    let Function { kernel, most_shared } = unsafe { &*function.cast::<Function>() };
    if attribute == MAX_DYNAMIC_SHARED_SIZE_BYTES {
        let bytes = u32::try_from(value).unwrap_or(u32::MAX);
        if bytes as usize + kernel.shared > MOST_SHARED as usize {
            return refuse(
                &format!("{}: {value} bytes of shared memory", kernel.name),
                INVALID_VALUE,
            );
        }
        most_shared.store(bytes.max(USUAL_SHARED), Ordering::Relaxed);
    }
    status()
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "as the driver has it")]
unsafe extern "C" fn cuLaunchKernel(
    function: *mut c_void,
    blocks_x: u32,
    blocks_y: u32,
    blocks_z: u32,
    threads_x: u32,
    threads_y: u32,
    threads_z: u32,
    shared: u32,
    _stream: *mut c_void,
    parameters: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> u32 {
    if status() != 0 {
        return status();
    }
    // SAFETY: the caller upholds the driver API's contract.
    let Function { kernel, most_shared } = unsafe { &*function.cast::<Function>() };
    let threads = [threads_x, threads_y, threads_z];
    let grid = Grid { blocks: [blocks_x, blocks_y, blocks_z], threads, shared: shared as usize };
    let count: u64 = threads.iter().map(|n| u64::from(*n)).product();
    let too_much = shared > most_shared.load(Ordering::Relaxed);
    if !(1..=1024).contains(&count) || grid.blocks.contains(&0) || too_much {
        return refuse(&format!("{}: a launch of {grid:?}", kernel.name), INVALID_VALUE);
    }
    let end = kernel.parameters.last().map_or(0, |(bytes, at)| at + bytes);
    let mut values = vec![0_u8; end];
    for (i, (bytes, at)) in kernel.parameters.iter().enumerate() {
        // SAFETY: the caller guarantees that each entry points to a value of the parameter's size.
        unsafe {
            let from = parameters.add(i).read().cast::<u8>();
            std::ptr::copy_nonoverlapping(from, values[*at..].as_mut_ptr(), *bytes);
        }
    }
    match launch(kernel, grid, &values) {
        Ok(()) => status(),
        Err(error) => lose(&error),
    }
}
