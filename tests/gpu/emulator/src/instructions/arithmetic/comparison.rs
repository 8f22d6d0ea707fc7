//! Comparisons.

use half::{bf16, f16};

use super::lanes::{Alu, alu, floats, integers};
use crate::instructions::value::{Float, LANES, Lanes, Value};

/// Returns the comparison of `setp` for a type.
pub(crate) fn comparison(comparison: &str, ty: &str) -> Option<Alu> {
    if ty.contains('f') {
        // Ordered comparisons are false if an operand is NaN; unordered ones (with a `u` at the end) are true.
        return match comparison {
            "eq" => floats!(ty, |a, b, c| a.wide() == b.wide()),
            "ne" => floats!(ty, |a, b, c| a.wide() < b.wide() || a.wide() > b.wide()),
            "lt" => floats!(ty, |a, b, c| a.wide() < b.wide()),
            "le" => floats!(ty, |a, b, c| a.wide() <= b.wide()),
            "gt" => floats!(ty, |a, b, c| a.wide() > b.wide()),
            "ge" => floats!(ty, |a, b, c| a.wide() >= b.wide()),
            "equ" => floats!(ty, |a, b, c| !(a.wide() < b.wide() || a.wide() > b.wide())),
            "neu" => floats!(ty, |a, b, c| a.wide() != b.wide()),
            "ltu" => floats!(ty, |a, b, c| !matches!(order(a.wide(), b.wide()), Some(0 | 1))),
            "leu" => floats!(ty, |a, b, c| !matches!(order(a.wide(), b.wide()), Some(1))),
            "gtu" => floats!(ty, |a, b, c| !matches!(order(a.wide(), b.wide()), Some(-1 | 0))),
            "geu" => floats!(ty, |a, b, c| !matches!(order(a.wide(), b.wide()), Some(-1))),
            "num" => floats!(ty, |a, b, c| order(a.wide(), b.wide()).is_some()),
            "nan" => floats!(ty, |a, b, c| order(a.wide(), b.wide()).is_none()),
            _ => None,
        };
    }
    match comparison {
        "eq" => integers!(ty, |a, b, c| a == b),
        "ne" => integers!(ty, |a, b, c| a != b),
        "lt" | "lo" => integers!(ty, |a, b, c| a < b),
        "le" | "ls" => integers!(ty, |a, b, c| a <= b),
        "gt" | "hi" => integers!(ty, |a, b, c| a > b),
        "ge" | "hs" => integers!(ty, |a, b, c| a >= b),
        _ => None,
    }
}

fn order(a: f64, b: f64) -> Option<i8> {
    a.partial_cmp(&b).map(|order| order as i8)
}
