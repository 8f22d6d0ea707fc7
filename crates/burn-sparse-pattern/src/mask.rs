use sha2::{Digest, Sha256};

use crate::PatternError;
use crate::shape::check_shape;

/// Mask of the kept weights of a `rows x cols` matrix: one bit each, rows aligned to 64-bit words.
///
/// ```
/// use burn_sparse_pattern::Mask;
///
/// let mask = Mask::from_fn(2, 4, |row, col| (row + col) % 2 == 0)?;
/// assert_eq!(mask.row_columns(1).collect::<Vec<_>>(), [1, 3]);
/// assert_eq!((mask.kept(), mask.sparsity()), (4, 0.5));
/// # Ok::<(), burn_sparse_pattern::PatternError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    rows: usize,
    cols: usize,
    words: Vec<u64>,
}

impl Mask {
    /// Creates a mask that keeps nothing.
    pub(crate) fn empty(rows: usize, cols: usize) -> Self {
        Self { rows, cols, words: vec![0; rows * cols.div_ceil(64)] }
    }

    /// Creates a mask from rows of whole words, in the form of [`Self::row`].
    pub(crate) fn from_words(rows: usize, cols: usize, words: Vec<u64>) -> Self {
        debug_assert_eq!(words.len(), rows * cols.div_ceil(64));
        Self { rows, cols, words }
    }

    /// Creates a mask that keeps everything.
    ///
    /// # Errors
    /// Returns an error if the matrix is empty or too large to index.
    pub fn full(rows: usize, cols: usize) -> Result<Self, PatternError> {
        Self::from_fn(rows, cols, |_, _| true)
    }

    /// Creates a mask from a predicate on `(row, column)`.
    ///
    /// # Errors
    /// Returns an error if the matrix is empty or too large to index.
    pub fn from_fn(
        rows: usize,
        cols: usize,
        keep: impl Fn(usize, usize) -> bool,
    ) -> Result<Self, PatternError> {
        check_shape(rows, cols)?;
        let mut mask = Self::empty(rows, cols);
        for row in 0..rows {
            for col in 0..cols {
                if keep(row, col) {
                    mask.set(row, col);
                }
            }
        }
        Ok(mask)
    }

    /// Creates a mask from row-major bytes: zeros are dropped, all other values kept.
    ///
    /// # Errors
    /// Returns an error if the matrix is empty or the length does not match.
    pub fn from_bytes(rows: usize, cols: usize, bytes: &[u8]) -> Result<Self, PatternError> {
        if Some(bytes.len()) != rows.checked_mul(cols) {
            let (expected, found) = (rows.saturating_mul(cols), bytes.len());
            return Err(PatternError::Length { rows, cols, expected, found });
        }
        Self::from_fn(rows, cols, |row, col| bytes[row * cols + col] != 0)
    }

    /// Returns the number of rows (outputs).
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns (reduction).
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns `true` if the weight is kept.
    pub fn get(&self, row: usize, col: usize) -> bool {
        self.row(row)[col / 64] >> (col % 64) & 1 == 1
    }

    pub(crate) fn set(&mut self, row: usize, col: usize) {
        let width = self.cols.div_ceil(64);
        self.words[row * width + col / 64] |= 1 << (col % 64);
    }

    /// Returns the bits of one row, lowest column first; bits past the last column are zero.
    pub fn row(&self, row: usize) -> &[u64] {
        let width = self.cols.div_ceil(64);
        &self.words[row * width..(row + 1) * width]
    }

    /// Returns the kept columns of one row, ascending.
    pub fn row_columns(&self, row: usize) -> impl Iterator<Item = usize> + '_ {
        self.row(row).iter().enumerate().flat_map(|(index, &word)| {
            std::iter::successors((word != 0).then_some(word), |&w| {
                let rest = w & (w - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |w| index * 64 + w.trailing_zeros() as usize)
        })
    }

    /// Returns the number of kept weights in columns `from..to` of one row.
    pub fn count_in(&self, row: usize, from: usize, to: usize) -> usize {
        let words = self.row(row);
        (from / 64..to.div_ceil(64))
            .map(|index| {
                let low = from.saturating_sub(index * 64).min(64);
                let high = (to - index * 64).min(64);
                let below = |n: usize| if n == 64 { u64::MAX } else { (1 << n) - 1 };
                (words[index] & below(high) & !below(low)).count_ones() as usize
            })
            .sum()
    }

    /// Returns the number of kept weights.
    pub fn kept(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the exact share of zeros.
    pub fn sparsity(&self) -> f64 {
        let all = self.rows * self.cols;
        (all - self.kept()) as f64 / all as f64
    }

    /// Returns the mask as row-major zeros and ones.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.rows * self.cols];
        for (row, bytes) in bytes.chunks_exact_mut(self.cols).enumerate() {
            for col in self.row_columns(row) {
                bytes[col] = 1;
            }
        }
        bytes
    }

    /// Returns a hash of shape and bits: the first 16 hexadecimal digits of a SHA-256, equal on every
    /// machine for equal masks.
    pub fn hash(&self) -> String {
        let mut fingerprint = Fingerprint::new(self.rows, self.cols);
        fingerprint.add(&self.words);
        fingerprint.finish()
    }
}

/// Hash of a mask whose rows are added one after the other.
pub(crate) struct Fingerprint(Sha256);

impl Fingerprint {
    pub(crate) fn new(rows: usize, cols: usize) -> Self {
        let mut sha = Sha256::new();
        sha.update((rows as u64).to_le_bytes());
        sha.update((cols as u64).to_le_bytes());
        Self(sha)
    }

    pub(crate) fn add(&mut self, words: &[u64]) {
        if cfg!(target_endian = "little") {
            self.0.update(bytemuck::cast_slice::<u64, u8>(words));
        } else {
            words.iter().for_each(|word| self.0.update(word.to_le_bytes()));
        }
    }

    pub(crate) fn finish(self) -> String {
        self.0.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_columns_agree_across_word_borders() {
        let mask = Mask::from_fn(3, 131, |r, c| (r + c * c) % 5 < 2).unwrap();
        for row in 0..3 {
            let columns: Vec<_> = (0..131).filter(|&c| mask.get(row, c)).collect();
            assert_eq!(mask.row_columns(row).collect::<Vec<_>>(), columns);
            for (from, to) in [(0, 131), (0, 64), (63, 65), (64, 128), (5, 5), (100, 131)] {
                let expected = columns.iter().filter(|&&c| (from..to).contains(&c)).count();
                assert_eq!(mask.count_in(row, from, to), expected, "{from}..{to}");
            }
        }
    }

    #[test]
    fn the_hash_depends_on_bits_and_shape() {
        let a = Mask::from_bytes(2, 3, &[1, 0, 1, 0, 1, 0]).unwrap();
        let b = Mask::from_bytes(3, 2, &[1, 0, 1, 0, 1, 0]).unwrap();
        let c = Mask::from_bytes(2, 3, &[1, 0, 1, 0, 1, 1]).unwrap();
        assert_eq!(a.hash(), Mask::from_bytes(2, 3, &a.to_bytes()).unwrap().hash());
        assert_ne!(a.hash(), b.hash());
        assert_ne!(a.hash(), c.hash());
    }
}
