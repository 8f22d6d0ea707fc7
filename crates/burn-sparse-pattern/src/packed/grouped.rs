use crate::packed::refuse;
use crate::packed::words::Words;
use crate::{Mask, PatternError, RowOrder};

const LAYOUT: &str = "grouped";

/// Columns shared by a group of V rows, with V contiguous values per kept column (the layout of the
/// Shfl-BW kernels). A short last group is padded to V rows with zeros.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupedPacked {
    rows: usize,
    cols: usize,
    vector: usize,
    columns: Vec<u32>,
    offsets: Vec<u32>,
    row_order: Option<RowOrder>,
    values: Vec<f32>,
}

impl GroupedPacked {
    pub(crate) fn pack(
        weights: &[f32],
        mask: &Mask,
        vector: usize,
        row_order: Option<&RowOrder>,
    ) -> Self {
        let (rows, cols) = (mask.rows(), mask.cols());
        let identity = RowOrder::identity(rows);
        let (mut columns, mut offsets, mut values) = (Vec::new(), vec![0], Vec::new());
        for group in row_order.unwrap_or(&identity).groups(vector) {
            for col in mask.row_columns(group[0] as usize) {
                columns.push(col as u32);
                values.extend(group.iter().map(|&row| weights[row as usize * cols + col]));
                values.resize(columns.len() * vector, 0.0);
            }
            offsets.push(columns.len() as u32);
        }
        Self { rows, cols, vector, columns, offsets, row_order: row_order.cloned(), values }
    }

    /// Creates the layout from the arrays of a file; without `offsets`, every group keeps the same
    /// number of columns.
    ///
    /// # Errors
    /// Returns an error if the lengths do not match, offsets decrease, columns are not ascending within
    /// their group, or a padded row is not zero.
    pub fn new(
        (rows, cols): (usize, usize),
        vector: usize,
        columns: Vec<u32>,
        offsets: Option<Vec<u32>>,
        row_order: Option<RowOrder>,
        values: Vec<f32>,
    ) -> Result<Self, PatternError> {
        crate::shape::check_shape(rows, cols)?;
        if !(2..=256).contains(&vector) {
            return Err(refuse(LAYOUT, "vector", vector, "2 to 256"));
        }
        if Some(values.len()) != columns.len().checked_mul(vector) {
            let expected = format!("{vector} for each of {} columns", columns.len());
            return Err(refuse(LAYOUT, "number of values", values.len(), expected));
        }
        // Prevents a file from claiming many groups without any data.
        if columns.is_empty() {
            return Err(refuse(LAYOUT, "number of columns", 0, "at least one"));
        }
        let groups = rows.div_ceil(vector);
        let offsets = match offsets {
            Some(offsets) => offsets,
            None if columns.len().is_multiple_of(groups) => {
                let kept = (columns.len() / groups) as u32;
                (0..=groups as u32).map(|group| group * kept).collect()
            }
            None => {
                let expected = format!("a multiple of {groups} groups");
                return Err(refuse(LAYOUT, "number of columns", columns.len(), expected));
            }
        };
        if offsets.len() != groups + 1 {
            return Err(refuse(LAYOUT, "number of group offsets", offsets.len(), groups + 1));
        }
        let rising = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
        if offsets[0] != 0 || !rising || offsets[groups] as usize != columns.len() {
            let expected = format!("rising from 0 to {}", columns.len());
            return Err(refuse(LAYOUT, "group offsets", "not so", expected));
        }
        if let Some(order) = &row_order
            && order.rows() != rows
        {
            return Err(refuse(LAYOUT, "row order length", order.rows(), rows));
        }
        let packed = Self { rows, cols, vector, columns, offsets, row_order, values };
        packed.check_columns()?;
        packed.check_padding()?;
        Ok(packed)
    }

    fn check_columns(&self) -> Result<(), PatternError> {
        for group in 0..self.groups() {
            let columns = &self.columns[self.range(group)];
            let ascending = columns.windows(2).all(|pair| pair[0] < pair[1]);
            if !ascending || columns.last().is_some_and(|&last| last as usize >= self.cols) {
                let expected = format!("ascending, below {}", self.cols);
                return Err(refuse(
                    LAYOUT,
                    format!("columns of group {group}"),
                    "not so",
                    expected,
                ));
            }
        }
        Ok(())
    }

    fn check_padding(&self) -> Result<(), PatternError> {
        let short = self.rows % self.vector;
        let last = self.range(self.groups() - 1);
        let mut padded = self.values[last.start * self.vector..].chunks_exact(self.vector);
        if short != 0 && padded.any(|values| values[short..].iter().any(|&value| value != 0.0)) {
            return Err(refuse(LAYOUT, "padded rows of the last group", "not zero", "zeros"));
        }
        Ok(())
    }

    pub(crate) fn range(&self, group: usize) -> std::ops::Range<usize> {
        self.offsets[group] as usize..self.offsets[group + 1] as usize
    }

    /// Returns the number of rows (outputs).
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns (reduction).
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the number of rows per group.
    pub fn vector(&self) -> usize {
        self.vector
    }

    /// Returns the number of groups, including a padded last one.
    pub fn groups(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns the kept columns, group by group, ascending within each group.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// Returns the offsets at which the columns of each group begin and end, `[groups + 1]`.
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// Returns the number of columns that every group keeps, if it is the same for all groups.
    pub fn equal_count(&self) -> Option<usize> {
        let kept = self.range(0).len();
        (1..self.groups()).all(|group| self.range(group).len() == kept).then_some(kept)
    }

    /// Returns the original row at each position; `None` if the rows are in their original order.
    pub fn row_order(&self) -> Option<&RowOrder> {
        self.row_order.as_ref()
    }

    /// Returns the kept values, `[columns, vector]`.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns the number of kept weights, excluding the padded rows of the last group.
    pub(crate) fn kept(&self) -> usize {
        let short = (self.vector - self.rows % self.vector) % self.vector;
        self.values.len() - short * self.range(self.groups() - 1).len()
    }

    /// Appends the mask bits of all rows, in their original order, to `words`.
    pub(super) fn each_row(&self, words: &mut Words<impl FnMut(&[u64])>) {
        let places = self.row_order.as_ref().map(RowOrder::places);
        let group_of =
            |row: usize| places.as_ref().map_or(row, |places| places[row] as usize) / self.vector;
        let columns = |group| self.columns[self.range(group)].iter().map(|&col| col as usize);
        let width = words.width();
        // The rows of a group are far apart in this order but have the same bits. Holds the bits of all
        // groups, unless there are so few columns that the bits would take more memory than the
        // weights.
        if self.groups() * width * size_of::<u64>() <= self.values.len() {
            let mut bits = vec![0_u64; self.groups() * width];
            for (group, bits) in bits.chunks_exact_mut(width).enumerate() {
                columns(group).for_each(|col| bits[col / 64] |= 1 << (col % 64));
            }
            (0..self.rows).for_each(|row| words.whole_row(&bits[group_of(row) * width..][..width]));
        } else {
            (0..self.rows).for_each(|row| words.row(columns(group_of(row))));
        }
    }

    pub(super) fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// Returns the row and column of every value, `None` for padding.
    pub(super) fn value_places(&self) -> Vec<Option<(u32, u32)>> {
        let identity = RowOrder::identity(self.rows);
        let order = self.row_order.as_ref().unwrap_or(&identity);
        let mut found = Vec::with_capacity(self.values.len());
        for (group, rows) in order.groups(self.vector).enumerate() {
            for &col in &self.columns[self.range(group)] {
                found.extend((0..self.vector).map(|lane| Some((*rows.get(lane)?, col))));
            }
        }
        found
    }

    pub(crate) fn visit(&self, mut each: impl FnMut(usize, usize, f32)) {
        let identity = RowOrder::identity(self.rows);
        let order = self.row_order.as_ref().unwrap_or(&identity);
        for (group, rows) in order.groups(self.vector).enumerate() {
            for at in self.range(group) {
                for (&row, &value) in rows.iter().zip(&self.values[at * self.vector..]) {
                    each(row as usize, self.columns[at] as usize, value);
                }
            }
        }
    }
}
