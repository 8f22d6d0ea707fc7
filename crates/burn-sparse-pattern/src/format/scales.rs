//! Scales of values that are stored as integers: one for every row, or for every block of columns of a row.

use half::bf16;
use rayon::prelude::*;

use super::integers::{LEVELS, ROW, Rounding, blocks, level_code};
use super::{Array, FloatType, FormatError, Integers};
use crate::Packed;

/// Scales of the values of a `[rows, cols]` matrix that are stored as integers.
#[derive(Debug, Clone, PartialEq)]
pub struct Scales {
    integers: Integers,
    /// Number of neighbouring columns that share a scale.
    block: usize,
    /// Number of blocks of a row.
    blocks: usize,
    /// `[rows, blocks]`.
    values: Vec<f32>,
}

/// Scales of a dense parameter: one axis of its stored shape is the rows, the other axes are the columns.
#[derive(Debug, Clone, PartialEq)]
pub struct DenseScales {
    /// Axis of the rows.
    pub axis: usize,
    /// Scales of the matrix.
    pub scales: Scales,
}

impl Scales {
    /// Creates scales `[rows, ⌈cols / block⌉]`; for integers in 8 bits, all columns are one block.
    ///
    /// # Panics
    /// Panics if blocks are empty, the number of scales is not a multiple of the number of blocks, or integers in 8 bits have
    /// several blocks.
    pub fn new(integers: Integers, cols: usize, block: usize, values: Vec<f32>) -> Self {
        let blocks = cols.div_ceil(block).max(1);
        assert!(blocks == 1 || integers == Integers::Int4, "{blocks} blocks of 8-bit integers");
        assert!(values.len().is_multiple_of(blocks), "{} scales of {blocks} blocks", values.len());
        Self { integers, block, blocks, values }
    }

    /// Creates scales of integers in 8 bits, one for every row.
    pub fn of_rows(values: Vec<f32>) -> Self {
        Self { integers: Integers::Int8, block: ROW, blocks: 1, values }
    }

    /// Returns the kind of integers.
    pub fn integers(&self) -> Integers {
        self.integers
    }

    /// Returns the number of neighbouring columns that share a scale.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Returns all scales, `[rows, blocks]`.
    pub fn as_slice(&self) -> &[f32] {
        &self.values
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.values.len() / self.blocks
    }

    /// Returns `true` if there are as many scales as a matrix of this size has.
    pub fn fits(&self, (rows, cols): (usize, usize)) -> bool {
        self.values.len() == rows * cols.div_ceil(self.block).max(1)
    }

    /// Returns `true` if a matrix of this size may be stored with these scales: as [`Self::fits`], with a number of columns per
    /// scale that the format allows, which is not the same for packed and for dense matrices.
    pub fn stores(&self, size: (usize, usize), is_packed: bool) -> bool {
        let block = self.integers == Integers::Int8 || blocks(is_packed).contains(&self.block);
        block && self.fits(size)
    }

    /// Returns the scale of a value.
    #[inline]
    pub fn at(&self, row: usize, col: usize) -> f32 {
        self.values[row * self.blocks + col / self.block]
    }

    /// Returns the rounding of the values of a row and block of columns, given one of the columns.
    #[inline]
    pub fn rounding(&self, row: usize, col: usize) -> Rounding {
        self.integers.rounding(self.at(row, col))
    }

    /// Returns the value of an integer.
    #[inline]
    pub(super) fn value(&self, row: usize, col: usize, integer: f32) -> f32 {
        let scale = self.at(row, col);
        if scale == 0.0 { 0.0 } else { integer * scale }
    }

    #[inline]
    fn rounded(&self, row: usize, col: usize, value: f32) -> f32 {
        self.value(row, col, self.rounding(row, col).integer(value).into())
    }

    /// Chooses the scales of `kept` values, or of all of a dense matrix; `visit` calls its argument with row, column and value.
    fn choose(
        integers: Integers,
        (rows, cols): (usize, usize),
        kept: Option<usize>,
        visit: impl FnOnce(&mut dyn FnMut(usize, usize, f32)),
    ) -> Self {
        let block = integers.block((rows, cols), kept);
        let mut found = Self::new(integers, cols, block, Vec::new());
        let mut blocks = vec![Vec::new(); rows * found.blocks];
        visit(&mut |row, col, value| blocks[row * found.blocks + col / block].push(value));
        found.values = blocks.par_iter().map(|values| integers.scale(values)).collect();
        found
    }

    /// Returns the array of integers with these scales.
    pub(super) fn array<'a>(&self, shape: Vec<usize>, integers: Vec<i8>) -> Array<'a> {
        match self.integers {
            Integers::Int8 => Array::signed_bytes(shape, integers),
            Integers::Int4 => {
                let codes = pack_levels(&integers);
                Array::bytes(vec![codes.len()], codes)
            }
        }
    }

    /// Returns the array of the scales.
    pub(super) fn as_array(&self) -> Array<'_> {
        match self.integers {
            Integers::Int8 => Array::floats(vec![self.values.len()], &self.values, FloatType::F32),
            Integers::Int4 => {
                Array::floats(vec![self.rows(), self.blocks], &self.values, FloatType::BF16)
            }
        }
    }

    /// Rejects scales that a file must not have: a wrong number of scales, or ones that are not finite, so small that products
    /// with them lose bits; for integers in 8 bits, negative ones; for integers in 4 bits, ones that bf16 cannot represent, or an
    /// unsupported number of columns per scale.
    pub(super) fn check(
        &self,
        name: &str,
        (rows, cols): (usize, usize),
        is_packed: bool,
    ) -> Result<(), FormatError> {
        let fail = |reason| Err(FormatError::tensor(name, reason));
        let expected = match self.integers {
            Integers::Int8 => rows,
            Integers::Int4 => {
                check_block(name, self.block, is_packed)?;
                rows * cols.div_ceil(self.block)
            }
        };
        if self.values.len() != expected {
            return fail(format!("{} scales, expected {expected}", self.values.len()));
        }
        let (sign, exact): (_, fn(f32) -> bool) = match self.integers {
            Integers::Int8 => ("positive ", |scale| scale > 0.0),
            Integers::Int4 => ("", |scale| bf16::from_f32(scale).to_f32() == scale),
        };
        let fits = |scale: &f32| *scale == 0.0 || (scale.is_normal() && exact(*scale));
        match self.values.iter().position(|scale| !fits(scale)) {
            Some(at) => {
                let found = self.values[at];
                fail(format!("scale {at} is {found}, expected zero or a normal {sign}number"))
            }
            None => Ok(()),
        }
    }
}

/// Rejects any other number of columns that share a scale.
pub(super) fn check_block(name: &str, block: usize, is_packed: bool) -> Result<(), FormatError> {
    let expected = blocks(is_packed);
    if expected.contains(&block) {
        return Ok(());
    }
    let reason = format!("scales of {block} columns, expected one of {expected:?}");
    Err(FormatError::tensor(name, reason))
}

impl DenseScales {
    /// Chooses the scales of dense values by [`scale`](super::scale), or for the [`LEVELS`](super::LEVELS) by least squares.
    ///
    /// # Panics
    /// Panics if the shape does not have the axis or as many elements.
    pub fn choose(integers: Integers, axis: usize, shape: &[usize], values: &[f32]) -> Self {
        assert_eq!(shape.iter().product::<usize>(), values.len(), "values of {shape:?}");
        let size = (shape[axis], values.len() / shape[axis].max(1));
        let scales = Scales::choose(integers, size, None, |put| {
            each(axis, shape, |at, row, col| put(row, col, values[at]));
        });
        Self { axis, scales }
    }

    /// Rounds dense values to the nearest multiples of their scales.
    ///
    /// # Panics
    /// Panics if there are fewer values or scales than the shape needs.
    pub fn round(&self, shape: &[usize], values: &mut [f32]) {
        each(self.axis, shape, |at, row, col| {
            values[at] = self.scales.rounded(row, col, values[at]);
        });
    }

    /// Replaces integers with their values.
    pub(super) fn multiply(&self, shape: &[usize], integers: &mut [f32]) {
        each(self.axis, shape, |at, row, col| {
            integers[at] = self.scales.value(row, col, integers[at]);
        });
    }

    /// Returns the integers of values.
    pub(super) fn integers(&self, shape: &[usize], values: &[f32]) -> Vec<i8> {
        let mut integers = Vec::with_capacity(values.len());
        each(self.axis, shape, |at, row, col| {
            integers.push(self.scales.rounding(row, col).integer(values[at]));
        });
        integers
    }
}

/// Calls `apply` with every element, in order, its index on an axis, and its number among those with the same index.
#[inline]
fn each(axis: usize, shape: &[usize], mut apply: impl FnMut(usize, usize, usize)) {
    let product = |shape: &[usize]| shape.iter().product::<usize>();
    let (around, within) = (product(&shape[..axis]), product(&shape[axis + 1..]));
    let mut at = 0;
    for before in 0..around {
        for row in 0..shape[axis] {
            for after in 0..within {
                apply(at, row, before * within + after);
                at += 1;
            }
        }
    }
}

impl Packed {
    /// Chooses scales by [`scale`](super::scale), or for the [`LEVELS`](super::LEVELS) by least squares.
    pub fn scales(&self, integers: Integers) -> Scales {
        let size = (self.rows(), self.cols());
        Scales::choose(integers, size, Some(self.kept()), |put| self.visit(put))
    }

    /// Rounds values to the nearest multiples of their scales.
    ///
    /// # Panics
    /// Panics if there are fewer scales than rows.
    pub fn round(&mut self, scales: &Scales) {
        self.map_values(|row, col, value| scales.rounded(row, col, value));
    }

    pub(super) fn integers(&self, scales: &Scales) -> Vec<i8> {
        let integer = |(&value, place): (&f32, Option<(u32, u32)>)| match place {
            Some((row, col)) => scales.rounding(row as usize, col as usize).integer(value),
            None => 0,
        };
        self.values().iter().zip(self.value_places()).map(integer).collect()
    }
}

/// Packs the codes of levels, two per byte, the first in the lower half.
pub(super) fn pack_levels(levels: &[i8]) -> Vec<u8> {
    let pair =
        |pair: &[i8]| level_code(pair[0]) | pair.get(1).map_or(0, |&high| level_code(high) << 4);
    levels.chunks(2).map(pair).collect()
}

/// Returns this many levels from the codes that [`pack_levels`] writes; `None` if there are more or fewer.
pub(super) fn unpack_levels(bytes: &[u8], count: usize) -> Option<Vec<f32>> {
    let padded = count % 2 == 1 && bytes.last().is_some_and(|last| last >> 4 != 0);
    if bytes.len() != count.div_ceil(2) || padded {
        return None;
    }
    let codes = bytes.iter().flat_map(|byte| [byte & 0xf, byte >> 4]);
    Some(codes.take(count).map(|code| LEVELS[usize::from(code)].into()).collect())
}

/// Rejects -128, the integer whose negative is out of range.
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
    fn every_value_meets_the_scale_of_its_index_on_any_axis() {
        let shape = [2, 3, 4];
        for axis in 0..3 {
            let scales: Vec<f32> = (0..shape[axis]).map(|at| (at + 1) as f32).collect();
            let scales = DenseScales { axis, scales: Scales::of_rows(scales) };
            let mut values = vec![1.0; 24];
            scales.multiply(&shape, &mut values);
            for (at, &value) in values.iter().enumerate() {
                let index = [at / 12, at / 4 % 3, at % 4];
                assert_eq!(value, scales.scales.as_slice()[index[axis]], "axis {axis}, {at}");
            }
        }
    }
}
