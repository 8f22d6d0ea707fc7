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
        for (at, &value) in values.iter().enumerate() {
            rows[index(axis, shape, at)].push(value);
        }
        Self { axis, values: rows.iter().map(|row| scale(row)).collect() }
    }

    /// Rounds dense values to the nearest multiples of their scales, from -127 to 127.
    ///
    /// # Panics
    /// As [`Self::choose`].
    pub fn round(&self, shape: &[usize], values: &mut [f32]) {
        for (at, value) in values.iter_mut().enumerate() {
            let scale = self.values[index(self.axis, shape, at)];
            *value = f32::from(integer(*value, scale)) * scale;
        }
    }

    /// Multiplies integers by their scales.
    pub(super) fn multiply(&self, shape: &[usize], integers: &mut [f32]) {
        for (at, value) in integers.iter_mut().enumerate() {
            *value *= self.values[index(self.axis, shape, at)];
        }
    }

    pub(super) fn integers(&self, shape: &[usize], values: &[f32]) -> Vec<i8> {
        let scale = |at| self.values[index(self.axis, shape, at)];
        values.iter().enumerate().map(|(at, &value)| integer(value, scale(at))).collect()
    }
}

/// Returns the index on an axis of an element.
fn index(axis: usize, shape: &[usize], at: usize) -> usize {
    at / shape[axis + 1..].iter().product::<usize>() % shape[axis]
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
pub fn integer(value: f32, scale: f32) -> i8 {
    if scale == 0.0 { 0 } else { (value / scale).round_ties_even().clamp(-MOST, MOST) as i8 }
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
