//! Creates tensor maps for the bulk copies that read them.

use std::ffi::c_void;

use super::device::answer;
use super::status::{INVALID_VALUE, NOT_SUPPORTED, refuse};
use crate::machine::tensor_map::TensorMap;

/// `CUtensorMap`.
#[repr(C, align(64))]
struct Opaque([u64; 16]);

/// Returns the bytes of an element of a `CUtensorMapDataType`, by its number in `cuda.h`.
fn bytes(data_type: u32) -> Option<u64> {
    Some(match data_type {
        0 => 1,
        1 | 6 | 9 => 2,
        2 | 3 | 7 | 10 | 11 | 12 => 4,
        4 | 5 | 8 => 8,
        _ => return None,
    })
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "as the driver has it")]
unsafe extern "C" fn cuTensorMapEncodeTiled(
    map: *mut Opaque,
    data_type: u32,
    axes: u32,
    address: *mut c_void,
    sizes: *const u64,
    strides: *const u64,
    boxes: *const u32,
    steps: *const u32,
    interleave: u32,
    swizzle: u32,
    _promotion: u32,
    _fill: u32,
) -> u32 {
    let axes = axes as usize;
    let (Some(element), 1..=5) = (bytes(data_type), axes) else {
        return refuse(&format!("a tensor map of type {data_type}, {axes} axes"), NOT_SUPPORTED);
    };
    // SAFETY: the caller guarantees that each array has an entry for every axis, and the strides for all but the
    // innermost.
    let (sizes, outer, boxes, steps) = unsafe {
        (
            std::slice::from_raw_parts(sizes, axes).to_vec(),
            std::slice::from_raw_parts(strides, axes - 1),
            std::slice::from_raw_parts(boxes, axes),
            std::slice::from_raw_parts(steps, axes),
        )
    };
    if interleave != 0 || swizzle > 3 || steps.iter().any(|step| *step != 1) {
        let why = format!("interleave {interleave}, swizzle {swizzle}, steps {steps:?}");
        return refuse(&format!("a tensor map with {why}"), NOT_SUPPORTED);
    }
    let tensor = TensorMap {
        address: address as u64,
        element,
        sizes,
        strides: std::iter::once(element).chain(outer.iter().copied()).collect(),
        boxes: boxes.iter().map(|size| u64::from(*size)).collect(),
        units: 1 << swizzle,
    };
    if !tensor.is_valid() {
        return INVALID_VALUE;
    }
    // SAFETY: the caller upholds the driver API's contract.
    unsafe { answer(map, Opaque(tensor.words())) }
}

/// Not emulated: callers choose another kernel.
#[unsafe(no_mangle)]
extern "C" fn cuTensorMapEncodeIm2col() -> u32 {
    NOT_SUPPORTED
}
