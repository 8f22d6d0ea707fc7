//! Sums and products that are not rounded to nearest.

use super::lanes::{Alu, alu};
use crate::instructions::value::{LANES, Lanes, Value};

/// Returns the f32 sum or product that is rounded down, up or to zero. The value in f64 is practically exact: products
/// of f32 are exact, and a sum loses only bits far below an f32's last.
pub(super) fn directed(parts: &[&str]) -> Option<Alu> {
    if parts.last() != Some(&"f32") {
        return None;
    }
    macro_rules! rounded {
        ($round:path) => {
            match parts[0] {
                "add" => alu!(f32, |a, b, c| $round(f64::from(a) + f64::from(b))),
                "sub" => alu!(f32, |a, b, c| $round(f64::from(a) - f64::from(b))),
                "mul" => alu!(f32, |a, b, c| $round(f64::from(a) * f64::from(b))),
                _ => alu!(f32, |a, b, c| $round(f64::from(a) * f64::from(b) + f64::from(c))),
            }
        };
    }
    match parts.iter().find(|part| ["rz", "rm", "rp"].contains(part)) {
        Some(&"rz") => rounded!(to_zero),
        Some(&"rm") => rounded!(down),
        _ => rounded!(up),
    }
}

/// Rounds down: the result is not above `x`.
pub(crate) fn down(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) > x { near.next_down() } else { near }
}

/// Rounds up: the result is not below `x`.
pub(crate) fn up(x: f64) -> f32 {
    -down(-x)
}

/// Rounds to zero: the result is not further from zero than `x`.
pub(crate) fn to_zero(x: f64) -> f32 {
    if x < 0.0 { up(x) } else { down(x) }
}
