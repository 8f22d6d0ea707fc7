use super::Moment;

/// Length of the pruning phase that a [`Plan`](super::Plan) is made for.
///
/// ```
/// use burn_sparse::prune::Horizon;
///
/// let by_steps = Horizon::steps(3_000);
/// let by_epochs = Horizon::epochs(10, 300); // 10 epochs of 300 steps
/// assert_eq!(by_epochs.total(), by_steps.total());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    total: usize,
    steps_per_epoch: Option<usize>,
}

impl Horizon {
    /// Creates a phase of `total` optimizer steps. A plan with times in epochs is then
    /// refused, because the length of an epoch is unknown.
    pub const fn steps(total: usize) -> Self {
        Self { total, steps_per_epoch: None }
    }

    /// Creates a phase of `epochs` epochs with `steps_per_epoch` optimizer steps each.
    pub const fn epochs(epochs: usize, steps_per_epoch: usize) -> Self {
        let total = epochs.saturating_mul(steps_per_epoch);
        Self { total, steps_per_epoch: Some(steps_per_epoch) }
    }

    /// Returns the number of optimizer steps.
    pub const fn total(&self) -> usize {
        self.total
    }

    /// Returns the number of optimizer steps of an epoch, if epochs are known.
    pub const fn steps_per_epoch(&self) -> Option<usize> {
        self.steps_per_epoch
    }

    /// Converts a moment to the nearest whole number of steps; `None` for epochs of unknown length.
    pub(super) fn in_steps(&self, moment: Moment) -> Option<usize> {
        match moment {
            Moment::Steps(steps) => Some(steps),
            Moment::Epochs(epochs) => {
                Some((epochs * self.steps_per_epoch? as f64).round() as usize)
            }
        }
    }
}
