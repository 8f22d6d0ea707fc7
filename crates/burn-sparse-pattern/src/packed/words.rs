/// Buffer that passes on the words of a mask in pieces, because a row may be far longer than its kept
/// data.
pub(super) struct Words<F: FnMut(&[u64])> {
    each: F,
    /// Number of words per row.
    width: usize,
    /// Word that columns are currently added to; `at` is its index in the row.
    word: u64,
    at: usize,
    piece: Vec<u64>,
}

const PIECE: usize = 1024;

impl<F: FnMut(&[u64])> Words<F> {
    pub(super) fn new(cols: usize, each: F) -> Self {
        let piece = Vec::with_capacity(PIECE);
        Self { each, width: cols.div_ceil(64), word: 0, at: 0, piece }
    }

    /// Appends a row that keeps these columns, given in ascending order.
    pub(super) fn row(&mut self, columns: impl Iterator<Item = usize>) {
        columns.for_each(|col| self.column(col));
        self.end_row();
    }

    /// Appends the next kept column of the row.
    #[inline]
    pub(super) fn column(&mut self, col: usize) {
        while self.at < col / 64 {
            self.next();
        }
        self.word |= 1 << (col % 64);
    }

    pub(super) fn end_row(&mut self) {
        while self.at < self.width {
            self.next();
        }
        self.at = 0;
    }

    #[inline]
    fn next(&mut self) {
        self.push(self.word);
        (self.at, self.word) = (self.at + 1, 0);
    }

    /// Appends a row given as whole words.
    pub(super) fn whole_row(&mut self, words: &[u64]) {
        words.iter().for_each(|&word| self.push(word));
    }

    #[inline]
    pub(super) fn push(&mut self, word: u64) {
        self.piece.push(word);
        if self.piece.len() == PIECE {
            (self.each)(&self.piece);
            self.piece.clear();
        }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn finish(mut self) {
        (self.each)(&self.piece);
    }
}
