//! Bitwise logic, shifts and bit fields.

use super::lanes::{Alu, alu, integers};
use crate::instructions::value::{LANES, Lanes, Value};

pub(super) fn bits(head: &str, ty: &str) -> Option<Alu> {
    if ty == "pred" {
        return match head {
            "mov" => alu!(bool, |a, b, c| a),
            "not" => alu!(bool, |a, b, c| !a),
            "and" => alu!(bool, |a, b, c| a & b),
            "or" => alu!(bool, |a, b, c| a | b),
            "xor" => alu!(bool, |a, b, c| a ^ b),
            _ => None,
        };
    }
    match head {
        "mov" => match ty {
            "b8" | "u8" | "s8" => alu!(u8, |a, b, c| a),
            "f16" | "bf16" => alu!(u16, |a, b, c| a),
            "f32" => alu!(u32, |a, b, c| a),
            "f64" => alu!(u64, |a, b, c| a),
            _ => integers!(ty, |a, b, c| a),
        },
        "not" => integers!(ty, |a, b, c| !a),
        "cnot" => integers!(ty, |a, b, c| T::from(a == 0)),
        "and" => integers!(ty, |a, b, c| a & b),
        "or" => integers!(ty, |a, b, c| a | b),
        "xor" => integers!(ty, |a, b, c| a ^ b),
        // Shift amounts have 32 bits; shifting by the type's width or more leaves zeros, or copies of the sign.
        "shl" | "shr" => shift(head, ty),
        "lop3" => Some(|a, b, c, table| {
            std::array::from_fn(|lane| {
                let bit = |i: u32| {
                    let index =
                        (a[lane] >> i & 1) << 2 | (b[lane] >> i & 1) << 1 | c[lane] >> i & 1;
                    (table[lane] >> index & 1) << i
                };
                (0..32).map(bit).sum()
            })
        }),
        _ => None,
    }
}

/// Builds an [`Alu`] whose second operand is a number of bits.
macro_rules! by_amount {
    ($ty:ty, |$a:ident, $by:ident| $result:expr) => {{
        fn run(a: &Lanes, b: &Lanes, _: &Lanes, _: &Lanes) -> Lanes {
            std::array::from_fn(|lane| {
                let ($a, $by) = (<$ty>::get(a[lane]), b[lane] as u32);
                Value::bits($result)
            })
        }
        Some(run as Alu)
    }};
}

fn shift(head: &str, ty: &str) -> Option<Alu> {
    match (head, ty) {
        ("shl", "b16") => by_amount!(u16, |a, by| a.checked_shl(by).unwrap_or(0)),
        ("shl", "b32") => by_amount!(u32, |a, by| a.checked_shl(by).unwrap_or(0)),
        ("shl", "b64") => by_amount!(u64, |a, by| a.checked_shl(by).unwrap_or(0)),
        ("shr", "b16" | "u16") => by_amount!(u16, |a, by| a.checked_shr(by).unwrap_or(0)),
        ("shr", "b32" | "u32") => by_amount!(u32, |a, by| a.checked_shr(by).unwrap_or(0)),
        ("shr", "b64" | "u64") => by_amount!(u64, |a, by| a.checked_shr(by).unwrap_or(0)),
        ("shr", "s16") => by_amount!(i16, |a, by| a >> by.min(15)),
        ("shr", "s32") => by_amount!(i32, |a, by| a >> by.min(31)),
        ("shr", "s64") => by_amount!(i64, |a, by| a >> by.min(63)),
        _ => None,
    }
}

pub(super) fn fields(parts: &[&str]) -> Option<Alu> {
    let ty = *parts.last()?;
    match (parts[0], ty) {
        ("popc", _) => alu!(u64, |a, b, c| a.count_ones()),
        ("clz", "b32") => alu!(u32, |a, b, c| a.leading_zeros()),
        ("clz", "b64") => alu!(u64, |a, b, c| a.leading_zeros()),
        ("brev", "b32") => alu!(u32, |a, b, c| a.reverse_bits()),
        ("brev", "b64") => alu!(u64, |a, b, c| a.reverse_bits()),
        ("bfind", "u32") => alu!(u32, |a, b, c| a.checked_ilog2().unwrap_or(u32::MAX)),
        ("bfe", "u32") => alu!(u32, |a, at, len| {
            (u64::from(a) >> at.min(63) & ((1_u64 << (len & 0xFF).min(63)) - 1)) as u32
        }),
        ("bfe", "u64") => Some(|a, at, len, _| {
            std::array::from_fn(|lane| {
                let (at, len) = ((at[lane] & 0xFF) as u32, (len[lane] & 0xFF).min(64) as u32);
                let field = a[lane].checked_shr(at).unwrap_or(0);
                field & u64::MAX.checked_shr(64 - len).unwrap_or(0)
            })
        }),
        ("bfe", "s32") => alu!(u32, |a, at, len| {
            let (at, len) = ((at & 0xFF).min(31), (len & 0xFF).min(32));
            let field = i64::from(a as i32) >> at;
            if len == 0 { 0 } else { (field << (64 - len) >> (64 - len)) as u32 }
        }),
        ("bfi", "b32") => Some(|a, b, at, len| {
            std::array::from_fn(|i| insert(a[i], b[i], at[i], len[i]) & 0xFFFF_FFFF)
        }),
        ("bfi", "b64") => {
            Some(|a, b, at, len| std::array::from_fn(|i| insert(a[i], b[i], at[i], len[i])))
        }
        // Each nibble of the selector picks one of the eight bytes of b and a; its highest bit replicates that byte's
        // sign.
        ("prmt", "b32") => alu!(u32, |a, b, selector| {
            let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
            u32::from_le_bytes(std::array::from_fn(|i| {
                let nibble = selector >> (4 * i) & 15;
                let byte = bytes[nibble as usize & 7];
                if nibble & 8 == 0 { byte } else { (byte as i8 >> 7) as u8 }
            }))
        }),
        ("shf", "b32") => {
            let wrap = parts.contains(&"wrap");
            match (parts.contains(&"l"), wrap) {
                (true, true) => alu!(u32, |a, b, by| pair(b, a, by & 31, true)),
                (true, false) => alu!(u32, |a, b, by| pair(b, a, by.min(32), true)),
                (false, true) => alu!(u32, |a, b, by| pair(b, a, by & 31, false)),
                (false, false) => alu!(u32, |a, b, by| pair(b, a, by.min(32), false)),
            }
        }
        _ => None,
    }
}

/// Returns `b` with its `len` bits from `at` on replaced by the lowest ones of `a`.
fn insert(a: u64, b: u64, at: u64, len: u64) -> u64 {
    let (at, len) = ((at & 0xFF).min(63) as u32, (len & 0xFF).min(64) as u32);
    let mask = u64::MAX.checked_shr(64 - len).unwrap_or(0) << at;
    b & !mask | a << at & mask
}

/// Returns the upper half of two words shifted left, or the lower half of them shifted right.
fn pair(high: u32, low: u32, by: u32, left: bool) -> u32 {
    let both = u64::from(high) << 32 | u64::from(low);
    if left { (both << by >> 32) as u32 } else { (both >> by) as u32 }
}
