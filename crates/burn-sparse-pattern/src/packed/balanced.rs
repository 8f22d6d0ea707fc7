use crate::packed::refuse;
use crate::packed::words::Words;
use crate::{Mask, PatternError};

const LAYOUT: &str = "balanced";

/// Values and in-block indices, `[rows, kept per row]` each. Counts are fixed, so nothing else is
/// needed to find a block.
#[derive(Debug, Clone, PartialEq)]
pub struct BalancedPacked {
    rows: usize,
    cols: usize,
    block: usize,
    kept: usize,
    values: Vec<f32>,
    indices: Vec<u8>,
}

impl BalancedPacked {
    pub(crate) fn pack(weights: &[f32], mask: &Mask, block: usize) -> Self {
        let (rows, cols) = (mask.rows(), mask.cols());
        let kept = mask.count_in(0, 0, block.min(cols));
        let (mut values, mut indices) = (Vec::new(), Vec::new());
        for row in 0..rows {
            for col in mask.row_columns(row) {
                values.push(weights[row * cols + col]);
                indices.push((col % block) as u8);
            }
        }
        Self { rows, cols, block, kept, values, indices }
    }

    /// Creates the layout from the arrays of a file, with `kept` of every `block` columns; the count of
    /// a shorter last block follows from the number of values.
    ///
    /// # Errors
    /// Returns an error if the lengths do not match, or indices are not ascending within their block.
    pub fn new(
        (rows, cols): (usize, usize),
        block: usize,
        kept: usize,
        values: Vec<f32>,
        indices: Vec<u8>,
    ) -> Result<Self, PatternError> {
        crate::shape::check_shape(rows, cols)?;
        if !(2..=256).contains(&block) {
            return Err(refuse(LAYOUT, "block", block, "2 to 256"));
        }
        if kept > block.min(cols) {
            return Err(refuse(
                LAYOUT,
                "kept weights of a block",
                kept,
                format!("at most {}", block.min(cols)),
            ));
        }
        if indices.len() != values.len() {
            return Err(refuse(LAYOUT, "number of indices", indices.len(), values.len()));
        }
        let packed = Self { rows, cols, block, kept, values, indices };
        if packed.values.is_empty() {
            return Err(refuse(LAYOUT, "number of values", 0, "at least one"));
        }
        let full = cols / block * kept;
        // A row shorter than a block is a single block that keeps `kept`.
        let (low, high) = if cols < block { (kept, kept) } else { (full, full + cols % block) };
        if !packed.values.len().is_multiple_of(rows)
            || !(low..=high).contains(&packed.kept_per_row())
        {
            let expected = format!("{rows} rows of {low} to {high}");
            return Err(refuse(LAYOUT, "number of values", packed.values.len(), expected));
        }
        packed.check_indices()?;
        Ok(packed)
    }

    fn check_indices(&self) -> Result<(), PatternError> {
        let short = self.cols % self.block;
        for (row, indices) in self.indices.chunks_exact(self.kept_per_row()).enumerate() {
            let (full, last) = self.split(indices);
            if ascend_in_blocks(full, self.kept, self.block) && ascending(last, short) {
                continue;
            }
            let mut blocks = full.chunks_exact(self.kept.max(1));
            let wrong = match blocks.position(|indices| !ascending(indices, self.block)) {
                Some(block) => Some((block, self.block)),
                None => (!ascending(last, short)).then_some((self.cols / self.block, short)),
            };
            if let Some((block, width)) = wrong {
                let found = self.blocks().nth(block).map_or(&[][..], |(_, range)| &indices[range]);
                let what = format!("indices of row {row}, block {block}");
                let expected = format!("ascending, below {width}");
                return Err(refuse(LAYOUT, what, format!("{found:?}"), expected));
            }
        }
        Ok(())
    }

    /// Splits the indices of a row into those of its full blocks and those of its short last block.
    fn split<'a>(&self, indices: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        indices.split_at(self.cols / self.block * self.kept)
    }

    /// Returns the index of each block and its range within the kept weights of a row.
    fn blocks(&self) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> + use<> {
        let (kept, per_row) = (self.kept, self.kept_per_row());
        let blocks = self.cols.div_ceil(self.block);
        (0..blocks).map(move |b| {
            let to = if b + 1 == blocks { per_row } else { (b + 1) * kept };
            (b, b * kept..to)
        })
    }

    /// Returns the number of rows (outputs).
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns (reduction).
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the number of columns per block.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Returns the number of kept weights per full block.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Returns the number of kept weights per row.
    pub fn kept_per_row(&self) -> usize {
        self.values.len() / self.rows
    }

    /// Returns the kept values, `[rows, kept_per_row]`.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns the column of every value within its block, `[rows, kept_per_row]`.
    pub fn indices(&self) -> &[u8] {
        &self.indices
    }

    /// Appends the mask bits of one row to `words`.
    pub(super) fn row_words(&self, row: usize, words: &mut Words<impl FnMut(&[u64])>) {
        let per_row = self.kept_per_row();
        let (full, last) = self.split(&self.indices[row * per_row..][..per_row]);
        for (block, indices) in full.chunks_exact(self.kept.max(1)).enumerate() {
            for &index in indices {
                words.column(block * self.block + usize::from(index));
            }
        }
        let left = self.cols / self.block * self.block;
        last.iter().for_each(|&index| words.column(left + usize::from(index)));
        words.end_row();
    }

    pub(super) fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    pub(crate) fn visit(&self, mut each: impl FnMut(usize, usize, f32)) {
        for row in 0..self.rows {
            for (block, range) in self.blocks() {
                for at in range {
                    let at = row * self.kept_per_row() + at;
                    each(row, block * self.block + usize::from(self.indices[at]), self.values[at]);
                }
            }
        }
    }
}

fn ascending(indices: &[u8], width: usize) -> bool {
    indices.windows(2).all(|pair| pair[0] < pair[1])
        && indices.last().is_none_or(|&last| usize::from(last) < width)
}

/// Same as [`ascending`] for every `kept` indices, in a few passes that the compiler vectorizes,
/// because a file has hundreds of millions of indices.
fn ascend_in_blocks(indices: &[u8], kept: usize, width: usize) -> bool {
    let falls = |at: usize| usize::from(indices[at - 1] >= indices[at]);
    let anywhere = indices.iter().zip(indices.iter().skip(1));
    let anywhere: usize = anywhere.map(|(one, next)| usize::from(one >= next)).sum();
    let between_blocks: usize = (kept.max(1)..indices.len()).step_by(kept.max(1)).map(falls).sum();
    anywhere == between_blocks && indices.iter().max().is_none_or(|&most| usize::from(most) < width)
}
