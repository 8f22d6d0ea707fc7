use super::curve::NamedCurve;
use super::{Curve, Moment};

/// Rise of the sparsity from zero to its target: when masks are updated, and along which curve.
///
/// ```
/// use burn_sparse::prune::Moment::Steps;
/// use burn_sparse::prune::Ramp;
///
/// // Masks are updated at steps 100, 120, …, 300; the last update reaches the target exactly.
/// let ramp = Ramp::cubic(Steps(300)).with_start(Steps(100)).with_every(Steps(20));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Ramp {
    pub(super) start: Moment,
    pub(super) end: Moment,
    pub(super) every: Moment,
    pub(super) curve: Curve,
}

impl Ramp {
    /// Creates a ramp along `curve` that ends at `end`. It starts at step 0 and updates masks every 50 steps.
    pub fn new(curve: Curve, end: Moment) -> Self {
        Self { start: Moment::Steps(0), end, every: Moment::Steps(50), curve }
    }

    /// Returns the cubic ramp of Zhu and Gupta (2017, equation 1), which ends at `end`.
    pub fn cubic(end: Moment) -> Self {
        Self::new(Curve::Named(NamedCurve::Cubic), end)
    }

    /// Creates a linear ramp that ends at `end`.
    pub fn linear(end: Moment) -> Self {
        Self::new(Curve::Named(NamedCurve::Linear), end)
    }

    /// Creates a ramp of one update, at `at`, which reaches the target at once.
    pub fn one_shot(at: Moment) -> Self {
        Self::cubic(at).with_start(at)
    }

    /// Sets the first update, counted from the start of pruning.
    #[must_use]
    pub fn with_start(mut self, start: Moment) -> Self {
        self.start = start;
        self
    }

    /// Sets the interval between updates.
    #[must_use]
    pub fn with_every(mut self, every: Moment) -> Self {
        self.every = every;
        self
    }
}
