use std::time::Duration;

use crate::RowOrder;

/// Options of the search for a row order.
///
/// Without a budget, the work depends on the shape alone, and the same scores, start and seed give the
/// same order on every machine and with any number of threads. With a budget, the result depends on the
/// clock.
///
/// ```
/// use burn_sparse_pattern::{Pattern, Scores, Search};
///
/// let scores: Vec<f32> = (0..64 * 64).map(|at| ((at / 64 + at) % 2) as f32).collect();
/// let scores = Scores::new(64, 64, &scores)?;
/// let search = Search { seed: 7, ..Search::default() };
/// let found = Pattern::shfl_bw(32).project(&scores, 0.5, &search)?;
/// // Even and odd rows keep different columns: the order separates them.
/// let order = found.row_order.unwrap();
/// assert!(order.groups(32).all(|group| group.iter().all(|row| row % 2 == group[0] % 2)));
/// # Ok::<(), burn_sparse_pattern::PatternError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// Seed of the first groups and of the order in which groups are paired.
    pub seed: u64,
    /// Starting point of the search.
    pub start: Start<'a>,
    /// Time budget: the search continues until it is spent, or stops at that time with the best order
    /// so far.
    pub budget: Option<Duration>,
    /// Amount of work relative to the default. Less is enough if the order will soon be searched again,
    /// as along a ramp.
    pub effort: f64,
}

impl Default for Search<'_> {
    fn default() -> Self {
        Self { seed: 0, start: Start::Cold, budget: None, effort: 1.0 }
    }
}

/// Starting point of a search for a row order.
#[derive(Debug, Clone, Copy, Default)]
pub enum Start<'a> {
    /// No previous order.
    #[default]
    Cold,
    /// An order found before, as for the next update of a ramp; takes a small part of the work of a
    /// cold start.
    Warm(&'a RowOrder),
    /// This order, unchanged.
    Fixed(&'a RowOrder),
}
