//! Runs that are interrupted and resumed.

use burn_sparse_run::Task;
use burn_sparse_run::run::{
    Begin, EpochReport, Observer, Outcome, Phase, RunError, TrainOptions, Trained, train,
};

/// Stops a session after a number of steps.
struct Stops {
    left: usize,
    losses: Vec<f64>,
}

impl Observer for Stops {
    fn step(&mut self, _: Phase, _: usize, _: usize, _: usize, loss: f64) {
        self.left = self.left.saturating_sub(1);
        self.losses.push(loss);
    }

    fn epoch(&mut self, _: &EpochReport) {}

    fn interrupted(&self) -> bool {
        self.left == 0
    }
}

/// Trains to the end, stopping and resuming after every `steps` steps; returns the loss of every step, too. `before` is called
/// with the number of steps done before each session.
///
/// # Errors
/// Returns the error of a session that fails.
pub fn train_in_sessions<T: Task>(
    mut options: TrainOptions<'_, T>,
    steps: usize,
    mut before: impl FnMut(usize),
) -> Result<(Trained, Vec<f64>), RunError> {
    let mut losses = Vec::new();
    loop {
        before(losses.len());
        let mut observer = Stops { left: steps, losses: Vec::new() };
        let outcome = train(&options, &mut observer)?;
        losses.extend(observer.losses);
        if let Outcome::Trained(trained) = outcome {
            return Ok((*trained, losses));
        }
        options.begin = Begin::Resume;
    }
}
