use crate::packed::refuse;
use crate::pattern::kinds::hinm::{Inner, runs};
use crate::{Mask, PatternError, RowOrder};

const LAYOUT: &str = "hierarchical";

/// Columns shared by a group of V rows, in runs of `of`, with `keep` values per run in every row: the
/// layout that VENOM and HiNM pass to sparse tensor cores, with one byte per position within a run.
#[derive(Debug, Clone, PartialEq)]
pub struct HierarchicalPacked {
    rows: usize,
    cols: usize,
    vector: usize,
    inner: Inner,
    columns: Vec<u32>,
    row_order: RowOrder,
    values: Vec<f32>,
    indices: Vec<u8>,
}

impl HierarchicalPacked {
    /// Packs a mask that has passed its check.
    pub(crate) fn pack(
        weights: &[f32],
        mask: &Mask,
        vector: usize,
        inner: Inner,
        row_order: &RowOrder,
    ) -> Self {
        let (rows, cols) = (mask.rows(), mask.cols());
        let (mut columns, mut values, mut indices) = (Vec::new(), Vec::new(), Vec::new());
        for (group, members) in row_order.groups(vector).enumerate() {
            let runs = runs(mask, inner, group, members).unwrap_or_default();
            for &row in members {
                for (at, col) in mask.row_columns(row as usize).enumerate() {
                    let run = &runs[at / inner.keep];
                    values.push(weights[row as usize * cols + col]);
                    indices.push(run.iter().position(|&c| c == col).unwrap_or(0) as u8);
                }
            }
            for run in runs {
                // A run with columns that no row keeps is padded with its last column; no index refers
                // to the padding.
                let last = run[run.len() - 1];
                let padded = run.into_iter().chain(std::iter::repeat(last)).take(inner.of);
                columns.extend(padded.map(|col| col as u32));
            }
        }
        let row_order = row_order.clone();
        Self { rows, cols, vector, inner, columns, row_order, values, indices }
    }

    /// Creates the layout from the arrays of a file, with `keep` values of every `of` columns.
    ///
    /// # Errors
    /// Returns an error if the lengths do not match, columns decrease within their group, or indices
    /// are not ascending within their run.
    pub fn new(
        (rows, cols): (usize, usize),
        vector: usize,
        (keep, of): (usize, usize),
        columns: Vec<u32>,
        row_order: RowOrder,
        values: Vec<f32>,
        indices: Vec<u8>,
    ) -> Result<Self, PatternError> {
        crate::shape::check_shape(rows, cols)?;
        if !(2..=256).contains(&vector) {
            return Err(refuse(LAYOUT, "vector", vector, "2 to 256"));
        }
        if !(2..=256).contains(&of) || !(1..of).contains(&keep) {
            return Err(refuse(
                LAYOUT,
                "inner pattern",
                format!("{keep} of {of}"),
                "N of M, N < M",
            ));
        }
        if row_order.rows() != rows {
            return Err(refuse(LAYOUT, "row order length", row_order.rows(), rows));
        }
        let groups = rows.div_ceil(vector);
        if columns.is_empty() || !columns.len().is_multiple_of(groups * of) {
            let expected = format!("a multiple of {groups} groups of {of}");
            return Err(refuse(LAYOUT, "number of columns", columns.len(), expected));
        }
        let expected = (columns.len() / groups / of).checked_mul(keep * rows);
        for (what, found) in [("values", values.len()), ("indices", indices.len())] {
            if Some(found) != expected {
                let expected = format!("{keep} of every {of} columns in {rows} rows");
                return Err(refuse(LAYOUT, format!("number of {what}"), found, expected));
            }
        }
        let inner = Inner { keep, of };
        let packed = Self { rows, cols, vector, inner, columns, row_order, values, indices };
        packed.check_columns()?;
        packed.check_indices()?;
        Ok(packed)
    }

    fn check_columns(&self) -> Result<(), PatternError> {
        let per_group = self.runs() * self.inner.of;
        for (group, columns) in self.columns.chunks_exact(per_group).enumerate() {
            let mut runs = columns.chunks_exact(self.inner.of);
            let within = runs.all(|run| run.windows(2).all(|pair| pair[0] <= pair[1]));
            let mut borders = columns.windows(2).skip(self.inner.of - 1).step_by(self.inner.of);
            let between = borders.all(|pair| pair[0] < pair[1]);
            if !within || !between || columns.iter().any(|&col| col as usize >= self.cols) {
                let expected = format!("rising, below {}", self.cols);
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

    fn check_indices(&self) -> Result<(), PatternError> {
        for (place, indices) in self.indices.chunks_exact(self.kept_per_row()).enumerate() {
            for (run, indices) in indices.chunks_exact(self.inner.keep).enumerate() {
                let columns = self.run_columns(place, run);
                let col = |&index: &u8| columns.get(usize::from(index));
                // Compares columns, because different positions of a padded run may hold the same
                // column.
                let rising = indices.windows(2).all(|pair| col(&pair[0]) < col(&pair[1]));
                if !rising || indices.iter().any(|index| col(index).is_none()) {
                    let what = format!("indices of place {place}, run {run}");
                    let expected = format!("rising, below {}", self.inner.of);
                    return Err(refuse(LAYOUT, what, format!("{indices:?}"), expected));
                }
            }
        }
        Ok(())
    }

    /// Returns the columns of a run, for the row at a position of the order.
    fn run_columns(&self, place: usize, run: usize) -> &[u32] {
        let at = (place / self.vector * self.runs() + run) * self.inner.of;
        &self.columns[at..][..self.inner.of]
    }

    /// Returns the number of runs per group.
    pub(crate) fn runs(&self) -> usize {
        self.columns.len() / self.rows.div_ceil(self.vector) / self.inner.of
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

    /// Returns the inner pattern `(keep, of)`: `keep` of every `of` kept columns.
    pub fn keep_of(&self) -> (usize, usize) {
        (self.inner.keep, self.inner.of)
    }

    /// Returns the number of kept weights per row.
    pub fn kept_per_row(&self) -> usize {
        self.runs() * self.inner.keep
    }

    /// Returns the kept columns, `[groups, runs, of]`.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// Returns the original row at each position.
    pub fn row_order(&self) -> &RowOrder {
        &self.row_order
    }

    /// Returns the kept values, `[places, kept_per_row]`.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns the position of every value's column within its run, `[places, kept_per_row]`.
    pub fn indices(&self) -> &[u8] {
        &self.indices
    }

    /// Returns the kept columns of the row at a position, ascending.
    pub(crate) fn place_columns(&self, place: usize) -> impl Iterator<Item = usize> + '_ {
        let per_row = self.kept_per_row();
        let indices = self.indices[place * per_row..][..per_row].iter().enumerate();
        indices.map(move |(slot, &index)| {
            self.run_columns(place, slot / self.inner.keep)[usize::from(index)] as usize
        })
    }

    pub(super) fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    pub(crate) fn visit(&self, mut each: impl FnMut(usize, usize, f32)) {
        let per_row = self.kept_per_row();
        for (place, &row) in self.row_order.as_slice().iter().enumerate() {
            for slot in 0..per_row {
                let at = place * per_row + slot;
                let columns = self.run_columns(place, slot / self.inner.keep);
                let col = columns[usize::from(self.indices[at])];
                each(row as usize, col as usize, self.values[at]);
            }
        }
    }
}
