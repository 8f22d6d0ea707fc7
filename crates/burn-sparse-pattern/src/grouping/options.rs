use std::time::Duration;

use crate::RowOrder;

/// How a row order is searched.
///
/// Without a budget the work depends on the shape alone, and the same scores, start and seed find the
/// same order on every machine and with any number of threads. With one the clock decides.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// Seeds the first groups and the order in which groups meet.
    pub seed: u64,
    /// Where the search starts.
    pub start: Start<'a>,
    /// Goes on until this much time has passed, or stops then with the best so far.
    pub budget: Option<Duration>,
    /// How much work is done, as a share of the usual: less where a better order would soon be searched
    /// again, as along a ramp.
    pub effort: f64,
}

impl Default for Search<'_> {
    fn default() -> Self {
        Self { seed: 0, start: Start::Cold, budget: None, effort: 1.0 }
    }
}

/// Where a search for a row order starts.
#[derive(Debug, Clone, Copy, Default)]
pub enum Start<'a> {
    /// From nothing.
    #[default]
    Cold,
    /// From an order found before, as in a ramp's next update: a small part of a cold search's work.
    Warm(&'a RowOrder),
    /// With this order, unchanged.
    Fixed(&'a RowOrder),
}
