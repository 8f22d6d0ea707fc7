//! Global memory: allocations on the host, whose bounds are known.
//!
//! Blocks run concurrently and their accesses are unordered, as on a device; a lock orders atomics.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Address and size of every allocation.
static ALLOCATIONS: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());
static ATOMICS: Mutex<()> = Mutex::new(());
/// Alignment of allocations, at least that of `cuMemAlloc`.
const ALIGN: usize = 512;

fn allocations() -> MutexGuard<'static, BTreeMap<u64, usize>> {
    ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), ALIGN).ok()
}

/// Allocates memory and fills it with NaN (in every floating-point type), so that reads of uninitialized memory show.
pub(crate) fn allocate(bytes: usize) -> Option<u64> {
    // SAFETY: the layout's size is not 0.
    let pointer = unsafe { alloc(layout(bytes)?) };
    if pointer.is_null() {
        return None;
    }
    // SAFETY: just allocated, with at least `bytes` bytes.
    unsafe { pointer.write_bytes(0xFF, bytes) };
    allocations().insert(pointer as u64, bytes);
    Some(pointer as u64)
}

/// Frees an allocation; returns `false` if there is none at `address`.
pub(crate) fn free(address: u64) -> bool {
    let Some(bytes) = allocations().remove(&address) else { return false };
    if let Some(layout) = layout(bytes) {
        // SAFETY: `allocate` made it with this layout, and it was still listed.
        unsafe { dealloc(address as *mut u8, layout) };
    }
    true
}

/// Makes a constant accessible to kernels and returns its address.
pub(crate) fn constant(words: &'static mut [u64]) -> u64 {
    let address = words.as_ptr() as u64;
    allocations().insert(address, words.len() * 8);
    address
}

/// Memory that a launch may read and write: the allocations that exist when it starts.
#[derive(Debug, Clone)]
pub(crate) struct Global {
    /// Start and exclusive end of every allocation, in ascending order.
    ranges: Vec<(u64, u64)>,
}

impl Global {
    pub(crate) fn now() -> Self {
        let allocations = allocations();
        Self { ranges: allocations.iter().map(|(from, len)| (*from, from + *len as u64)).collect() }
    }

    fn check(&self, address: u64, bytes: usize) -> Result<(), String> {
        let after = self.ranges.partition_point(|(from, _)| *from <= address);
        let inside = after > 0 && address + bytes as u64 <= self.ranges[after - 1].1;
        // An asynchronous copy that reads nothing may have any source address.
        if inside || bytes == 0 {
            return Ok(());
        }
        Err(format!("{bytes} bytes of global memory at {address:#x} belong to no allocation"))
    }

    /// Reads from `address` into `to`.
    pub(crate) fn read(&self, address: u64, to: &mut [u8]) -> Result<(), String> {
        self.check(address, to.len())?;
        // SAFETY: the range is inside an allocation, which the program keeps until the launch has ended.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Writes `from` to `address`.
    pub(crate) fn write(&self, address: u64, from: &[u8]) -> Result<(), String> {
        self.check(address, from.len())?;
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), address as *mut u8, from.len()) };
        Ok(())
    }

    /// Returns a guard to be held during an atomic operation.
    pub(crate) fn atomic() -> MutexGuard<'static, ()> {
        ATOMICS.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
