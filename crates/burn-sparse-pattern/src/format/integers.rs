//! Values as integers: in 8 bits, or as one of sixteen levels in 4 bits.

use half::bf16;
use serde::{Deserialize, Serialize};

/// Largest magnitude of an integer.
const MOST: f32 = 127.0;

/// Integers of 4-bit values, by code: the levels that round values of a normal distribution with the smallest squared error
/// (Lloyd, 1982), given a scale of either sign for every 32 of them.
pub const LEVELS: [i8; 16] =
    [-127, -101, -80, -62, -47, -34, -21, -10, 0, 12, 24, 36, 50, 65, 84, 109];

/// Integers that values are stored as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Integers {
    /// From -127 to 127, with a scale in f32 for every row.
    Int8,
    /// One of the 16 [`LEVELS`], with a scale in bf16 for every block of columns of a row.
    Int4,
}

/// Block of all columns of a row.
pub(super) const ROW: usize = usize::MAX;

impl Integers {
    /// Returns the number of neighbouring columns of a `[rows, cols]` matrix that share a scale, given the number of kept
    /// weights; `None` if the matrix is dense.
    pub fn block(self, (rows, cols): (usize, usize), kept: Option<usize>) -> usize {
        match self {
            Self::Int8 => ROW,
            Self::Int4 => block(rows * cols, kept),
        }
    }

    /// Returns the scale that rounds values with the smallest squared error found.
    pub fn scale(self, values: &[f32]) -> f32 {
        match self {
            Self::Int8 => scale(values),
            Self::Int4 => scale_of_levels(values),
        }
    }

    /// Returns the rounding of values with this scale.
    pub fn rounding(self, scale: f32) -> Rounding {
        Rounding { integers: self, scale }
    }
}

/// Rounding of values to multiples of a scale.
#[derive(Debug, Clone, Copy)]
pub struct Rounding {
    integers: Integers,
    scale: f32,
}

impl Rounding {
    /// Returns the integer of a value.
    #[inline]
    pub fn integer(self, value: f32) -> i8 {
        match self.integers {
            Integers::Int8 => integer(value, self.scale),
            Integers::Int4 => LEVELS[usize::from(code(value, self.scale))],
        }
    }
}

/// Returns the number of neighbouring columns that share a scale if `kept` of `all` weights are kept, or the matrix is dense:
/// those of about 32 kept weights.
fn block(all: usize, kept: Option<usize>) -> usize {
    let blocks = blocks(kept.is_some());
    let wanted = (32 * all).div_ceil(kept.unwrap_or(all).max(1));
    // The nearest by ratio.
    let near = |&&block: &&usize| block * block * 2 >= wanted * wanted;
    blocks.iter().find(near).copied().unwrap_or(MOST_COLUMNS)
}

/// Maximum number of columns that share a scale in 4 bits: the same as for inputs that are rounded to 8 bits.
const MOST_COLUMNS: usize = 256;

/// Returns the numbers of columns that may share a scale in 4 bits.
pub(super) fn blocks(is_packed: bool) -> &'static [usize] {
    const BLOCKS: [usize; 4] = [32, 64, 128, MOST_COLUMNS];
    // Kernels for packed weights look up inputs among 64.
    if is_packed { &BLOCKS[1..] } else { &BLOCKS }
}

/// Returns the integer of a value, from -127 to 127. A value computed as an integer times the scale gives that integer again.
#[inline]
pub fn integer(value: f32, scale: f32) -> i8 {
    // Added to a small number, it leaves the nearest integer, ties to even, in the lowest bits: `round_ties_even` is a library
    // call on x86 before SSE4.1.
    const ROUNDER: f32 = 1.5 * (1 << 23) as f32;
    let found = value / scale;
    if scale == 0.0 || found.is_nan() {
        return 0;
    }
    (found.clamp(-MOST, MOST) + ROUNDER).to_bits() as i8
}

/// Code of the level zero.
const ZERO: u8 = 8;

/// Returns the code of the level nearest to a value; that of zero for NaN.
#[inline]
fn code(value: f32, scale: f32) -> u8 {
    let found = value / scale;
    if scale == 0.0 || found.is_nan() { ZERO } else { nearest(found) }
}

/// Returns the code of the level nearest to a number.
#[inline(always)]
fn nearest(number: f32) -> u8 {
    let above = |pair: &[i8]| 2.0 * number > f32::from(pair[0]) + f32::from(pair[1]);
    // A sum of comparisons, which compilers turn into vectors.
    LEVELS.windows(2).map(|pair| u8::from(above(pair))).sum()
}

/// Returns the code of the level nearest to an integer.
pub fn level_code(integer: i8) -> u8 {
    nearest(integer.into())
}

/// Returns the scale that rounds values with the smallest squared error, among those that clip at most a quarter of the largest;
/// 0, which makes all of them zero, if one is not finite.
pub fn scale(values: &[f32]) -> f32 {
    let largest = largest(values);
    let whole = largest / MOST;
    if !whole.is_normal() {
        return 0.0;
    }
    let error = |scale: f32| -> f64 {
        let inverse = 1.0 / scale;
        let errors = values.iter().map(|value| {
            let rounded = (value * inverse).round_ties_even().clamp(-MOST, MOST) * scale;
            f64::from(value - rounded).powi(2)
        });
        errors.sum()
    };
    let mut best = (error(whole), whole);
    for step in 1..=STEPS {
        let scale = whole * (1.0 - step as f32 / STEPS as f32 / 4.0);
        let found = error(scale);
        if found < best.0 {
            best = (found, scale);
        }
    }
    best.1
}

/// Number of scales that are tried below the one that clips nothing.
const STEPS: usize = 10;

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0_f32, |most, value| most.max(value.abs()))
}

/// Returns the scale, of either sign, that rounds values to the [`LEVELS`] with the smallest squared error found. Every
/// assignment of levels has a best scale, so assignments by 24 scales are tried.
fn scale_of_levels(values: &[f32]) -> f32 {
    let whole = largest(values) / MOST;
    let mut best = (f32::INFINITY, 0.0);
    // A tenth of its smallest multiple must be representable, too.
    if !(whole * 0.1).is_normal() {
        return 0.0;
    }
    for sign in [1.0, -1.0] {
        for step in 0..12 {
            let inverse = sign / (whole * (0.7 + 0.04 * step as f32));
            let (mut product, mut square) = (0.0, 0.0);
            for value in values {
                let level = f32::from(LEVELS[usize::from(nearest(value * inverse))]);
                product += value * level;
                square += level * level;
            }
            let scale = bf16::from_f32(if square > 0.0 { product / square } else { 0.0 }).to_f32();
            // The sum of squares of `value - scale · level`, without that of the values.
            let error = scale * (scale * square - 2.0 * product);
            if error < best.0 && scale.is_normal() {
                best = (error, scale);
            }
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_nearest_with_ties_to_even_and_zero_for_what_is_no_number() {
        for quarter in -520..=520_i16 {
            let value = f32::from(quarter) / 4.0;
            let expected = value.round_ties_even().clamp(-MOST, MOST);
            assert_eq!(f32::from(integer(value, 1.0)), expected, "{value}");
            assert_eq!(f32::from(integer(0.125 * value, 0.125)), expected, "{value}");
        }
        let nearly = [0.5_f32.next_up(), 0.5_f32.next_down(), 126.5, 1e30, -1e30];
        assert_eq!(nearly.map(|value| integer(value, 1.0)), [1, 0, 126, 127, -127]);
        assert_eq!([f32::INFINITY, f32::NEG_INFINITY].map(|v| integer(v, 1.0)), [127, -127]);
        let payload = f32::from_bits(f32::NAN.to_bits() | 0x80);
        assert_eq!([f32::NAN, -f32::NAN, payload].map(|value| integer(value, 1.0)), [0; 3]);
        assert_eq!([integer(3.0, 0.0), integer(0.0, 0.0)], [0; 2]);
    }

    #[test]
    fn codes_are_those_of_the_nearest_levels_and_zero_for_what_is_no_number() {
        for hundredth in -14_000..=14_000_i32 {
            let value = hundredth as f32 / 100.0;
            let distance = |level: i8| (value - f32::from(level)).abs();
            let least = LEVELS.into_iter().map(distance).fold(f32::INFINITY, f32::min);
            for scale in [1.0, -0.125] {
                let found = LEVELS[usize::from(code(value * scale, scale))];
                assert_eq!(distance(found), least, "{value}");
            }
        }
        assert_eq!([code(f32::NAN, 1.0), code(1.0, 0.0), code(0.0, 0.0)], [ZERO; 3]);
        assert_eq!(LEVELS[usize::from(ZERO)], 0);
        assert_eq!([code(f32::INFINITY, 1.0), code(f32::INFINITY, -1.0)], [15, 0]);
    }

    /// Lloyd's iteration with weights: the mean of the numbers that are nearest to a level is the better level.
    #[test]
    fn levels_are_those_of_normal_values_in_blocks_of_32() {
        let mut state = 1_u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) as f32 + 0.5) / (1 << 24) as f32
        };
        let mut normal = || {
            let (radius, angle) =
                ((-2.0 * uniform().ln()).sqrt(), std::f32::consts::TAU * uniform());
            radius * angle.cos()
        };
        let (mut sums, mut weights) = ([0.0_f64; 16], [0.0_f64; 16]);
        for _ in 0..40_000 {
            let values: Vec<f32> = (0..32).map(|_| normal()).collect();
            let scale = scale_of_levels(&values);
            for value in values {
                let at = usize::from(code(value, scale));
                sums[at] += f64::from(value / scale) * f64::from(scale * scale);
                weights[at] += f64::from(scale * scale);
            }
        }
        for (at, level) in LEVELS.into_iter().enumerate() {
            let mean = sums[at] / weights[at];
            assert!((mean - f64::from(level)).abs() < 0.75, "{at}: {level}, mean {mean}");
        }
    }
}
