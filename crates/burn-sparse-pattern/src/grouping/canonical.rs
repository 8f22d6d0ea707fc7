use crate::grouping::simd;
use crate::{RowOrder, Scores};

/// Rows of a matrix in an order that depends only on their content, so that a search that visits them
/// in this order finds the same groups however the rows are permuted.
///
/// The index of a row in this order is its *rank*; the search works with ranks until it returns its
/// result.
pub(crate) struct Canonical<'a> {
    scores: Scores<'a>,
    rows: Vec<u32>,
}

/// Ranks of the rows of each group.
pub(crate) type Groups = Vec<Vec<u32>>;

impl<'a> Canonical<'a> {
    pub(crate) fn new(scores: &Scores<'a>) -> Self {
        let mut rows: Vec<u32> = (0..scores.rows() as u32).collect();
        // Scores are never NaN, and the relative order of equal rows does not matter.
        rows.sort_by(|&a, &b| {
            let (a, b) = (scores.row(a as usize), scores.row(b as usize));
            a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal)
        });
        Self { scores: *scores, rows }
    }

    pub(crate) fn rows(&self) -> usize {
        self.scores.rows()
    }

    pub(crate) fn cols(&self) -> usize {
        self.scores.cols()
    }

    /// Returns the scores as stored, by row and not by rank.
    pub(crate) fn stored(&self) -> &'a [f32] {
        self.scores.values()
    }

    /// Returns the row at which a rank is stored.
    pub(crate) fn stored_at(&self, rank: u32) -> usize {
        self.rows[rank as usize] as usize
    }

    pub(crate) fn row(&self, rank: u32) -> &'a [f32] {
        self.scores.row(self.stored_at(rank))
    }

    /// Returns the minimum number of jobs per thread, if each job reads `rows_each` rows.
    pub(crate) fn jobs(&self, rows_each: usize) -> usize {
        const SCORES: usize = 1 << 16;
        (SCORES / (rows_each * self.cols())).max(1)
    }

    /// Computes the score of every V x 1 vector of one group.
    pub(crate) fn sums(&self, group: &[u32]) -> Vec<f32> {
        let mut sums = vec![0.0_f32; self.cols()];
        for &rank in group {
            simd::add(&mut sums, self.row(rank));
        }
        // Finite scores can sum to infinity, which would no longer rank.
        sums.iter_mut().for_each(|sum| *sum = sum.min(f32::MAX));
        sums
    }

    /// Returns the groups of an order, as ascending ranks.
    pub(crate) fn groups(&self, order: &RowOrder, vector: usize) -> Groups {
        let mut rank_of = vec![0_u32; self.rows()];
        for (rank, &row) in self.rows.iter().enumerate() {
            rank_of[row as usize] = rank as u32;
        }
        let ranks = |rows: &[u32]| {
            let mut ranks: Vec<u32> = rows.iter().map(|&row| rank_of[row as usize]).collect();
            ranks.sort_unstable();
            ranks
        };
        order.groups(vector).map(ranks).collect()
    }

    /// Returns the row order of groups: rows ascending within a group, groups by their first row, the
    /// short group last. Equal groupings give equal orders.
    pub(crate) fn order(&self, groups: &Groups) -> RowOrder {
        let full = groups[0].len();
        let stored = |group: &Vec<u32>| {
            let mut rows: Vec<u32> = group.iter().map(|&rank| self.rows[rank as usize]).collect();
            rows.sort_unstable();
            rows
        };
        let mut rows: Vec<Vec<u32>> = groups.iter().map(stored).collect();
        rows.sort_by_key(|rows| (rows.len() < full, rows[0]));
        RowOrder::trusted(rows.concat())
    }
}
