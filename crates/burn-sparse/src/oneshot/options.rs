use std::time::Duration;

use burn_sparse_pattern::{Distribution, Pattern};

/// Options of [`prune_file`](super::prune_file).
///
/// ```no_run
/// use burn_sparse::oneshot::{OneShot, prune_file};
/// use burn_sparse::pattern::Pattern;
///
/// let options = OneShot::new(Pattern::shfl_bw(32), 0.75);
/// prune_file("model.safetensors".as_ref(), "pruned.safetensors".as_ref(), &options, |_| {})?;
/// # Ok::<(), burn_sparse::oneshot::OneShotError>(())
/// ```
#[derive(Debug, Clone)]
pub struct OneShot {
    pub(super) pattern: Pattern,
    pub(super) sparsity: f64,
    pub(super) include: Vec<String>,
    pub(super) orientation: Orientation,
    pub(super) seed: u64,
    pub(super) budget: Option<Duration>,
    pub(super) distribution: Distribution,
    pub(super) cap: f64,
}

/// Axis of a matrix that holds the outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Orientation {
    /// `[out, in]`, as PyTorch stores `Linear`.
    #[default]
    PyTorch,
    /// `[in, out]`, as Burn stores `Linear`.
    Burn,
}

impl OneShot {
    /// Prunes all float tensors with 2 or 4 axes to `sparsity` under `pattern`; a pattern that fixes its own sparsity ignores it.
    pub fn new(pattern: Pattern, sparsity: f64) -> Self {
        Self {
            pattern,
            sparsity: pattern.fixed_sparsity().unwrap_or(sparsity),
            include: vec!["*".into()],
            orientation: Orientation::default(),
            seed: 0,
            budget: None,
            distribution: Distribution::default(),
            cap: 0.99,
        }
    }

    /// Selects tensors by globs over their names.
    #[must_use]
    pub fn with_include<S: Into<String>>(mut self, include: impl IntoIterator<Item = S>) -> Self {
        self.include = include.into_iter().map(Into::into).collect();
        self
    }

    /// Sets which axis of a matrix holds the outputs.
    #[must_use]
    pub fn with_orientation(mut self, orientation: Orientation) -> Self {
        self.orientation = orientation;
        self
    }

    /// Seeds the row order search.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Searches the row order of every tensor for this long.
    #[must_use]
    pub fn with_budget(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Sets how the sparsity is distributed over the tensors.
    #[must_use]
    pub fn with_distribution(mut self, distribution: Distribution) -> Self {
        self.distribution = distribution;
        self
    }

    /// Sets the highest sparsity that [`Distribution::Global`] gives a tensor (0.99 by default).
    #[must_use]
    pub fn with_cap(mut self, cap: f64) -> Self {
        self.cap = cap;
        self
    }
}
