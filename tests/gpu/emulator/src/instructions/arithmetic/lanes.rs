//! Lifts functions of numbers to whole registers, for each type they are defined for.

use crate::instructions::value::{LANES, Lanes};

/// Computes a register from up to four registers.
pub(crate) type Alu = fn(&Lanes, &Lanes, &Lanes, &Lanes) -> Lanes;

/// Applies an [`Alu`] to two scalars.
pub(crate) fn of_two(run: Alu, a: u64, b: u64) -> u64 {
    let all = |x: u64| -> Lanes { [x; LANES] };
    run(&all(a), &all(b), &all(0), &all(0))[0]
}

/// Builds an [`Alu`] from an expression on operands of one type.
macro_rules! alu {
    ($ty:ty, |$a:ident, $b:ident, $c:ident| $result:expr) => {{
        #[allow(unused_variables)]
        fn run(a: &Lanes, b: &Lanes, c: &Lanes, _: &Lanes) -> Lanes {
            let mut out = [0; LANES];
            for lane in 0..LANES {
                let ($a, $b, $c) = (<$ty>::get(a[lane]), <$ty>::get(b[lane]), <$ty>::get(c[lane]));
                out[lane] = Value::bits($result);
            }
            out
        }
        Some(run as Alu)
    }};
}

/// Builds an [`Alu`] for any integer type, by its name in PTX; `T` is the Rust type.
macro_rules! integers {
    ($ty:expr, |$a:ident, $b:ident, $c:ident| $result:expr) => {
        match $ty {
            "u16" | "b16" => {
                #[allow(dead_code)]
                type T = u16;
                alu!(T, |$a, $b, $c| $result)
            }
            "u32" | "b32" => {
                #[allow(dead_code)]
                type T = u32;
                alu!(T, |$a, $b, $c| $result)
            }
            "u64" | "b64" => {
                #[allow(dead_code)]
                type T = u64;
                alu!(T, |$a, $b, $c| $result)
            }
            "s16" => {
                #[allow(dead_code)]
                type T = i16;
                alu!(T, |$a, $b, $c| $result)
            }
            "s32" => {
                #[allow(dead_code)]
                type T = i32;
                alu!(T, |$a, $b, $c| $result)
            }
            "s64" => {
                #[allow(dead_code)]
                type T = i64;
                alu!(T, |$a, $b, $c| $result)
            }
            _ => None,
        }
    };
}

macro_rules! floats {
    ($ty:expr, |$a:ident, $b:ident, $c:ident| $result:expr) => {
        match $ty {
            "f32" => alu!(f32, |$a, $b, $c| $result),
            "f64" => alu!(f64, |$a, $b, $c| $result),
            "f16" => alu!(f16, |$a, $b, $c| $result),
            "bf16" => alu!(bf16, |$a, $b, $c| $result),
            "f16x2" => alu!([f16; 2], |$a, $b, $c| $result),
            "bf16x2" => alu!([bf16; 2], |$a, $b, $c| $result),
            _ => None,
        }
    };
}

pub(super) use {alu, floats, integers};
