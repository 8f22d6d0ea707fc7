use std::time::Instant;

use burn::module::{Module, ModuleDisplay};
use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use burn::train::TrainStep;
use burn_sparse::recipe::{Recipe, TrainTable};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::folder::State;
use super::{EpochReport, Observer, Phase, RunError, RunFolder};
use crate::Task;

/// What stays the same all through a run.
pub(super) struct Session<'a, T: Task> {
    pub(super) task: &'a T,
    pub(super) recipe: &'a Recipe,
    pub(super) data: &'a T::Data,
    pub(super) folder: &'a RunFolder,
    pub(super) device: &'a Device,
    pub(super) steps_per_epoch: usize,
}

/// What the loop asks of the model it trains, the task's own or the same under masks.
pub(super) struct Kind<W, M> {
    pub(super) phase: Phase,
    pub(super) epochs: usize,
    /// The task's model inside.
    pub(super) inner: fn(&W) -> &M,
    pub(super) masks: fn(&W) -> Result<Masks, RunError>,
    /// Whether all mask updates have succeeded so far.
    pub(super) sound: fn(&W) -> Result<(), RunError>,
}

/// What the masks are, and what their updates did since the last look.
#[derive(Default)]
pub(super) struct Masks {
    pub(super) sparsity: f64,
    pub(super) changed: f64,
    pub(super) seconds: f64,
}

impl<T: Task> Session<'_, T> {
    /// Trains the rest of a phase; nothing comes back where the observer ended it.
    pub(super) fn phase<W>(
        &self,
        state: &mut State,
        mut model: W,
        mut optimizer: ModuleOptimizer,
        kind: Kind<W, T::Model>,
        observer: &mut dyn Observer,
    ) -> Result<Option<W>, RunError>
    where
        W: Module
            + ModuleDisplay
            + TrainStep<
                Input = <T::Model as TrainStep>::Input,
                Output = <T::Model as TrainStep>::Output,
            >,
    {
        let TrainTable { batch_size, optimizer: spec, learning_rate_schedule, .. } =
            &self.recipe.train;
        let (phase, steps) = (kind.phase, self.steps_per_epoch);
        while state.epoch < kind.epochs {
            let started = Instant::now();
            let order = self.order(phase, state.epoch);
            for indices in order.chunks(*batch_size).skip(state.step) {
                let done = state.epoch * steps + state.step;
                let share =
                    learning_rate_schedule.share(done as f64 / (kind.epochs * steps) as f64);
                let rate = spec.learning_rate() * share;
                let output = model.step(self.task.batch(self.data, indices, self.device));
                let loss = self.task.loss(&output.item);
                state.step += 1;
                if !loss.is_finite() {
                    let (phase, epoch, step) = (phase.name(), state.epoch + 1, state.step);
                    return Err(RunError::Diverged { phase, epoch, step, loss });
                }
                state.loss += loss;
                model = model.optimize(&mut optimizer, rate.into(), output.grads);
                observer.step(phase, state.epoch + 1, state.step, steps, loss);
                if observer.interrupted() {
                    // A resumed run would not know of an update that failed.
                    (kind.sound)(&model)?;
                    state.seconds += started.elapsed().as_secs_f64();
                    self.folder.save(state, &model, &optimizer)?;
                    return Ok(None);
                }
            }
            let masks = (kind.masks)(&model)?;
            let plain = self.device.clone().inner();
            let found = self.task.evaluate(self.data, &(kind.inner)(&model).valid(), &plain);
            let report = EpochReport {
                phase,
                epoch: state.epoch + 1,
                epochs: kind.epochs,
                loss: state.loss / steps as f64,
                metric: found.name.clone(),
                value: found.value,
                sparsity: masks.sparsity,
                mask_changed: masks.changed,
                mask_seconds: masks.seconds,
                seconds: started.elapsed().as_secs_f64(),
            };
            if phase == Phase::Dense {
                state.dense_metric = Some(found);
            }
            observer.epoch(&report);
            self.folder.log(&report)?;
            state.seconds += report.seconds;
            (state.epoch, state.step, state.loss) = (state.epoch + 1, 0, 0.0);
            self.folder.save(state, &model, &optimizer)?;
        }
        Ok(Some(model))
    }

    /// The order of an epoch's samples: its own stream of the seed, so that it does not depend on
    /// where a session began.
    fn order(&self, phase: Phase, epoch: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.task.train_len()).collect();
        let mut random = ChaCha8Rng::seed_from_u64(self.recipe.seed);
        random.set_stream(2 * epoch as u64 + u64::from(phase == Phase::Prune));
        order.shuffle(&mut random);
        order
    }
}
