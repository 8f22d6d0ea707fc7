//! Instructions that compute a register from registers, independently in each lane.

mod bits;
mod comparison;
mod lanes;
mod products;
mod rounding;

pub(crate) use comparison::comparison;
pub(crate) use lanes::{Alu, of_two};
pub(crate) use rounding::{down, to_zero, up};

use half::{bf16, f16};
use lanes::{alu, floats, integers};

use super::value::{Float, LANES, Lanes, Value};

/// Returns the instruction of this opcode, split at the dots, or `None` if it is not one of these.
pub(crate) fn find(parts: &[&str]) -> Option<Alu> {
    let (head, ty) = (*parts.first()?, *parts.last()?);
    let has = |part: &str| parts.contains(&part);
    if has("cc") || has("sat") && head != "add" {
        return None;
    }
    match head {
        "mov" | "not" | "and" | "or" | "xor" | "shl" | "shr" | "lop3" | "cnot" => {
            bits::bits(head, ty)
        }
        "bfe" | "bfi" | "bfind" | "popc" | "clz" | "brev" | "prmt" | "shf" => bits::fields(parts),
        "add" | "sub" | "mul" | "mad" | "fma" if has("rz") || has("rm") || has("rp") => {
            rounding::directed(parts)
        }
        "add" => integers!(ty, |a, b, c| a.wrapping_add(b))
            .or(floats!(ty, |a, b, c| Float::apply(a, b, c, |a, b, _| a + b))),
        "sub" => integers!(ty, |a, b, c| a.wrapping_sub(b))
            .or(floats!(ty, |a, b, c| Float::apply(a, b, c, |a, b, _| a - b))),
        "mul" if has("wide") => products::wide(ty),
        "mul" if has("hi") => products::high(ty),
        "mul" => integers!(ty, |a, b, c| a.wrapping_mul(b))
            .or(floats!(ty, |a, b, c| Float::apply(a, b, c, |a, b, _| a * b))),
        "mad" if has("wide") => products::wide_sum(ty),
        "mad" if has("lo") => integers!(ty, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        "mad" | "fma" if has("relu") => {
            floats!(ty, |a, b, c| Float::apply(Float::fma(a, b, c), b, c, |a, _, _| a.max(0.0)))
        }
        "mad" | "fma" => floats!(ty, |a, b, c| Float::fma(a, b, c)),
        "div" => integers!(ty, |a, b, c| a.checked_div(b).unwrap_or(T::MAX))
            .or(floats!(ty, |a, b, c| Float::apply(a, b, c, |a, b, _| a / b))),
        "rem" => integers!(ty, |a, b, c| a.checked_rem(b).unwrap_or(a)),
        "min" | "max" => extreme(head, ty, has("NaN")),
        "abs" => match ty {
            "s16" => alu!(i16, |a, b, c| a.wrapping_abs()),
            "s32" => alu!(i32, |a, b, c| a.wrapping_abs()),
            "s64" => alu!(i64, |a, b, c| a.wrapping_abs()),
            _ => floats!(ty, |a, b, c| Float::apply(a, b, c, |a, _, _| a.abs())),
        },
        "neg" => integers!(ty, |a, b, c| (0 as T).wrapping_sub(a))
            .or(floats!(ty, |a, b, c| Float::apply(a, b, c, |a, _, _| -a))),
        "selp" => selp(ty),
        "copysign" => floats!(ty, |a, b, c| Float::apply(a, b, c, |a, b, _| b.copysign(a))),
        "testp" => testp(parts),
        "rcp" => floats!(ty, |a, b, c| Float::apply(a, b, c, |a, _, _| a.recip())),
        "sqrt" => floats!(ty, |a, b, c| Float::apply(a, b, c, |a, _, _| a.sqrt())),
        "rsqrt" => floats!(ty, |a, b, c| Float::apply(a, b, c, |a, _, _| a.sqrt().recip())),
        "sin" => floats!(ty, |a, b, c| Float::apply(a, b, c, |a, _, _| a.sin())),
        "cos" => floats!(ty, |a, b, c| Float::apply(a, b, c, |a, _, _| a.cos())),
        "lg2" => floats!(ty, |a, b, c| Float::apply(a, b, c, |a, _, _| a.log2())),
        "ex2" => floats!(ty, |a, b, c| Float::apply(a, b, c, |a, _, _| a.exp2())),
        "tanh" => floats!(ty, |a, b, c| Float::apply(a, b, c, |a, _, _| a.tanh())),
        _ => None,
    }
}

fn extreme(head: &str, ty: &str, nan: bool) -> Option<Alu> {
    // A number takes precedence over NaN, unless `.NaN` requests the opposite.
    match (head, nan) {
        ("min", false) => integers!(ty, |a, b, c| a.min(b))
            .or(floats!(ty, |a, b, c| Float::apply(a, b, c, |a, b, _| a.min(b)))),
        ("max", false) => integers!(ty, |a, b, c| a.max(b))
            .or(floats!(ty, |a, b, c| Float::apply(a, b, c, |a, b, _| a.max(b)))),
        ("min", true) => floats!(ty, |a, b, c| Float::apply(a, b, c, |a, b, _| {
            if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
        })),
        _ => floats!(ty, |a, b, c| Float::apply(a, b, c, |a, b, _| {
            if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
        })),
    }
}

fn selp(ty: &str) -> Option<Alu> {
    crate::text::size_of(ty)?;
    Some(|a, b, p, _| std::array::from_fn(|i| if p[i] & 1 == 1 { a[i] } else { b[i] }))
}

fn testp(parts: &[&str]) -> Option<Alu> {
    let ty = *parts.last()?;
    match parts[1] {
        "finite" => floats!(ty, |a, b, c| Float::wide(a).is_finite()),
        "infinite" => floats!(ty, |a, b, c| Float::wide(a).is_infinite()),
        "number" => floats!(ty, |a, b, c| !Float::wide(a).is_nan()),
        "notanumber" => floats!(ty, |a, b, c| Float::wide(a).is_nan()),
        _ => None,
    }
}
