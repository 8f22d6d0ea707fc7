//! Integer products that are wider than their factors.

use super::lanes::{Alu, alu};
use crate::instructions::value::{LANES, Lanes, Value};

pub(super) fn wide(ty: &str) -> Option<Alu> {
    match ty {
        "u16" => alu!(u16, |a, b, c| u32::from(a) * u32::from(b)),
        "s16" => alu!(i16, |a, b, c| i32::from(a) * i32::from(b)),
        "u32" => alu!(u32, |a, b, c| u64::from(a) * u64::from(b)),
        "s32" => alu!(i32, |a, b, c| i64::from(a) * i64::from(b)),
        _ => None,
    }
}

pub(super) fn high(ty: &str) -> Option<Alu> {
    match ty {
        "u16" => alu!(u16, |a, b, c| ((u32::from(a) * u32::from(b)) >> 16) as u16),
        "s16" => alu!(i16, |a, b, c| ((i32::from(a) * i32::from(b)) >> 16) as i16),
        "u32" => alu!(u32, |a, b, c| ((u64::from(a) * u64::from(b)) >> 32) as u32),
        "s32" => alu!(i32, |a, b, c| ((i64::from(a) * i64::from(b)) >> 32) as i32),
        "u64" => alu!(u64, |a, b, c| ((u128::from(a) * u128::from(b)) >> 64) as u64),
        "s64" => alu!(i64, |a, b, c| ((i128::from(a) * i128::from(b)) >> 64) as i64),
        _ => None,
    }
}

pub(super) fn wide_sum(ty: &str) -> Option<Alu> {
    match ty {
        "u16" => Some(|a, b, c, _| {
            std::array::from_fn(|i| {
                u64::from(
                    (u32::from(a[i] as u16) * u32::from(b[i] as u16)).wrapping_add(c[i] as u32),
                )
            })
        }),
        "u32" => Some(|a, b, c, _| {
            std::array::from_fn(|i| {
                (u64::from(a[i] as u32) * u64::from(b[i] as u32)).wrapping_add(c[i])
            })
        }),
        "s32" => Some(|a, b, c, _| {
            std::array::from_fn(|i| {
                (i64::from(a[i] as i32) * i64::from(b[i] as i32)).wrapping_add(c[i] as i64) as u64
            })
        }),
        _ => None,
    }
}
