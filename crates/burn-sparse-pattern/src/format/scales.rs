//! Values in 8 bits: integers from -127 to 127, and a scale for every row.

use super::FormatError;
use crate::Packed;

/// Largest magnitude of an integer.
const MOST: f32 = 127.0;

/// Scales of a dense parameter whose values are stored in 8 bits, one for every index of an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Scales {
    /// Axis of the stored shape.
    pub axis: usize,
    /// One scale for every index of the axis.
    pub values: Vec<f32>,
}

impl Scales {
    /// Chooses the scales of dense values by [`scale`].
    ///
    /// # Panics
    /// Panics if the shape does not have the axis or as many elements.
    pub fn choose(axis: usize, shape: &[usize], values: &[f32]) -> Self {
        assert_eq!(shape.iter().product::<usize>(), values.len(), "values of {shape:?}");
        let mut rows = vec![Vec::new(); shape[axis]];
        each(axis, shape, |at, row| rows[row].push(values[at]));
        Self { axis, values: rows.iter().map(|row| scale(row)).collect() }
    }

    /// Rounds dense values to the nearest multiples of their scales, from -127 to 127.
    ///
    /// # Panics
    /// As [`Self::choose`].
    pub fn round(&self, shape: &[usize], values: &mut [f32]) {
        each(self.axis, shape, |at, row| {
            let scale = self.values[row];
            values[at] = f32::from(integer(values[at], scale)) * scale;
        });
    }

    /// Multiplies integers by their scales.
    pub(super) fn multiply(&self, shape: &[usize], integers: &mut [f32]) {
        each(self.axis, shape, |at, row| integers[at] *= self.values[row]);
    }

    pub(super) fn integers(&self, shape: &[usize], values: &[f32]) -> Vec<i8> {
        let mut integers = Vec::with_capacity(values.len());
        each(self.axis, shape, |at, row| integers.push(integer(values[at], self.values[row])));
        integers
    }
}

/// Calls `apply` with every element, in order, and its index on an axis.
#[inline]
fn each(axis: usize, shape: &[usize], mut apply: impl FnMut(usize, usize)) {
    let product = |shape: &[usize]| shape.iter().product::<usize>();
    let (around, within) = (product(&shape[..axis]), product(&shape[axis + 1..]));
    let mut at = 0;
    for _ in 0..around {
        for row in 0..shape[axis] {
            for _ in 0..within {
                apply(at, row);
                at += 1;
            }
        }
    }
}

impl Packed {
    /// Chooses a scale for every row by [`scale`].
    pub fn scales(&self) -> Vec<f32> {
        let mut rows = vec![Vec::new(); self.rows()];
        self.visit(|row, _, value| rows[row].push(value));
        rows.iter().map(|row| scale(row)).collect()
    }

    /// Rounds values to the nearest multiples of the scales of their rows, from -127 to 127.
    ///
    /// # Panics
    /// Panics if there are fewer scales than rows.
    pub fn round(&mut self, scales: &[f32]) {
        self.map_values(|row, value| f32::from(integer(value, scales[row])) * scales[row]);
    }

    pub(super) fn integers(&self, scales: &[f32]) -> Vec<i8> {
        let scale = |row: Option<u32>| row.map_or(0.0, |row| scales[row as usize]);
        let rows = self.value_rows().into_iter();
        self.values().iter().zip(rows).map(|(&value, row)| integer(value, scale(row))).collect()
    }
}

/// Returns the integer of a value, from -127 to 127. A value that was computed as one times the scale gives that integer again.
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

/// Returns the scale that rounds values with the smallest squared error, of those that clip none to a quarter of the largest.
pub fn scale(values: &[f32]) -> f32 {
    let largest = values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
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

/// Scales that are tried below the one that clips nothing.
const STEPS: usize = 10;

/// Refuses scales that a file must not have: of another number, negative, not finite, or so small that products with them
/// lose bits.
pub(super) fn check(name: &str, scales: &[f32], rows: usize) -> Result<(), FormatError> {
    if scales.len() != rows {
        let reason = format!("{} scales, expected {rows}", scales.len());
        return Err(FormatError::tensor(name, reason));
    }
    let fits = |scale: &f32| *scale == 0.0 || (scale.is_normal() && *scale > 0.0);
    match scales.iter().position(|scale| !fits(scale)) {
        Some(row) => {
            let reason = format!(
                "scale {row} is {}, expected zero or a normal positive number",
                scales[row]
            );
            Err(FormatError::tensor(name, reason))
        }
        None => Ok(()),
    }
}

/// Refuses the integer without a counterpart of the other sign.
pub(super) fn check_integers(name: &str, integers: &[i8]) -> Result<(), FormatError> {
    match integers.contains(&i8::MIN) {
        true => Err(FormatError::tensor(name, "holds -128, expected integers from -127 to 127")),
        false => Ok(()),
    }
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
    fn every_value_meets_the_scale_of_its_index_on_any_axis() {
        let shape = [2, 3, 4];
        for axis in 0..3 {
            let scales: Vec<f32> = (0..shape[axis]).map(|at| (at + 1) as f32).collect();
            let scales = Scales { axis, values: scales };
            let mut values = vec![1.0; 24];
            scales.multiply(&shape, &mut values);
            for (at, &value) in values.iter().enumerate() {
                let index = [at / 12, at / 4 % 3, at % 4];
                assert_eq!(value, scales.values[index[axis]], "axis {axis}, {at}");
            }
        }
    }
}
