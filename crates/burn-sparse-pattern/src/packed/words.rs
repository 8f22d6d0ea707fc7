/// The words of a mask, handed on in pieces: a row may be far longer than all that is kept of it.
pub(super) struct Words<F: FnMut(&[u64])> {
    each: F,
    /// Words of a row.
    width: usize,
    piece: Vec<u64>,
}

const PIECE: usize = 1024;

impl<F: FnMut(&[u64])> Words<F> {
    pub(super) fn new(cols: usize, each: F) -> Self {
        Self { each, width: cols.div_ceil(64), piece: Vec::with_capacity(PIECE) }
    }

    /// A row that keeps these columns, ascending.
    pub(super) fn row(&mut self, columns: impl Iterator<Item = usize>) {
        let (mut at, mut word) = (0, 0_u64);
        for col in columns {
            while at < col / 64 {
                self.push(word);
                (at, word) = (at + 1, 0);
            }
            word |= 1 << (col % 64);
        }
        while at < self.width {
            self.push(word);
            (at, word) = (at + 1, 0);
        }
    }

    /// The next word.
    pub(super) fn push(&mut self, word: u64) {
        self.piece.push(word);
        if self.piece.len() == PIECE {
            (self.each)(&self.piece);
            self.piece.clear();
        }
    }

    /// A row of whole words.
    pub(super) fn whole_row(&mut self, words: &[u64]) {
        words.iter().for_each(|&word| self.push(word));
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn finish(mut self) {
        (self.each)(&self.piece);
    }
}
