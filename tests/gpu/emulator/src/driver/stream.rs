//! Streams and events. Every call completes before it returns, so an event is the time at which it was recorded.

use std::ffi::c_void;
use std::sync::Mutex;
use std::time::Instant;

use super::device::answer;
use super::status::{INVALID_VALUE, status};

/// Handle of every stream; it is never dereferenced.
const STREAM: *mut c_void = std::ptr::without_provenance_mut(2);

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut *mut c_void, _: u32) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { answer(stream, STREAM) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreateWithPriority(stream: *mut *mut c_void, _: u32, _: i32) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { answer(stream, STREAM) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamDestroy_v2(_: *mut c_void) -> u32 {
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamSynchronize(_: *mut c_void) -> u32 {
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamWaitEvent(_: *mut c_void, _: *mut c_void, _: u32) -> u32 {
    status()
}

/// Time at which an event was recorded.
type Event = Mutex<Option<Instant>>;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut *mut c_void, _: u32) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { answer(event, Box::into_raw(Box::new(Event::default())).cast()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventDestroy_v2(event: *mut c_void) -> u32 {
    // SAFETY: the caller guarantees that `cuEventCreate` made the event and that it is no longer used.
    drop(unsafe { Box::from_raw(event.cast::<Event>()) });
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventRecord(event: *mut c_void, _: *mut c_void) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    if let Ok(mut time) = unsafe { &*event.cast::<Event>() }.lock() {
        *time = Some(Instant::now());
    }
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventSynchronize(_: *mut c_void) -> u32 {
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventQuery(_: *mut c_void) -> u32 {
    status()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime(
    milliseconds: *mut f32,
    start: *mut c_void,
    end: *mut c_void,
) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    let [start, end] = [start, end].map(|event| unsafe { &*event.cast::<Event>() });
    let time = |event: &Event| event.lock().ok().and_then(|time| *time);
    match time(start).zip(time(end)) {
        Some((start, end)) => {
            let passed = end.saturating_duration_since(start).as_secs_f32();
            // SAFETY: the caller upholds the driver API's contract.
            unsafe { answer(milliseconds, passed * 1e3) }
        }
        None => INVALID_VALUE,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime_v2(
    milliseconds: *mut f32,
    start: *mut c_void,
    end: *mut c_void,
) -> u32 {
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { cuEventElapsedTime(milliseconds, start, end) }
}
