use std::collections::BTreeMap;
use std::time::Instant;

use burn::module::{Module, ModuleDisplay};
use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};
use burn_sparse::recipe::{Keep, Recipe, TrainTable};
use burn_sparse::train::Sparse;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::state::{Best, State};
use super::{EpochReport, Observer, Phase, RunError, RunFolder, parallel};
use crate::classification::{distilled, loss, samples};
use crate::{Metric, Samples, Task};

/// What stays the same all through a run.
pub(super) struct Session<'a, T: Task> {
    pub(super) task: &'a T,
    pub(super) recipe: &'a Recipe,
    pub(super) data: &'a T::Data,
    pub(super) folder: &'a RunFolder,
    /// Where the model is, and its optimizer.
    pub(super) device: &'a Device,
    /// All devices that share a batch, [`Self::device`] among them.
    pub(super) devices: &'a [Device],
    pub(super) steps_per_epoch: usize,
}

/// What the loop asks of the model it trains, the task's own or the same under masks.
pub(super) struct Kind<'a, W, M> {
    pub(super) phase: Phase,
    pub(super) epochs: usize,
    /// The learning rate by the share of the phase that is done.
    pub(super) rate: fn(&TrainTable, f64) -> f64,
    /// Whose outputs the model learns from as well, as the recipe says.
    pub(super) teacher: Option<&'a M>,
    /// The task's model inside.
    pub(super) inner: fn(&W) -> &M,
    /// Whether the phase could end with this model.
    pub(super) may_be_last: fn(&W) -> bool,
    pub(super) masks: fn(&W) -> Result<MaskReport, RunError>,
    /// Whether all mask updates have succeeded so far.
    pub(super) sound: fn(&W) -> Result<(), RunError>,
}

/// What the masks are, and what their updates did since the last look.
#[derive(Default)]
pub(super) struct MaskReport {
    sparsity: f64,
    patterns: BTreeMap<String, f64>,
    changed: f64,
    seconds: f64,
}

impl MaskReport {
    pub(super) fn of<M: Module>(model: &Sparse<M>) -> Result<Self, RunError> {
        let journal = model.take_journal()?;
        let masks = model.masks()?;
        Ok(Self {
            sparsity: masks.sparsity,
            patterns: masks.patterns,
            changed: journal.changed_share(),
            seconds: journal.seconds,
        })
    }
}

impl<T: Task> Session<'_, T> {
    /// Trains the rest of a phase; nothing comes back where the observer ended it.
    pub(super) fn phase<W>(
        &self,
        state: &mut State,
        mut model: W,
        mut optimizer: ModuleOptimizer,
        kind: Kind<'_, W, T::Model>,
        observer: &mut dyn Observer,
    ) -> Result<Option<W>, RunError>
    where
        W: Module
            + ModuleDisplay
            + TrainStep<Input = <T::Model as TrainStep>::Input, Output = ClassificationOutput>,
    {
        while state.epoch < kind.epochs && !self.is_over(state) {
            let started = Instant::now();
            let done = self.epoch(state, model, &mut optimizer, &kind, observer)?;
            model = done.model;
            if done.interrupted {
                // A resumed run would not know of an update that failed.
                (kind.sound)(&model)?;
                state.seconds += started.elapsed().as_secs_f64();
                self.folder.save(state, &model, &optimizer)?;
                return Ok(None);
            }
            let masks = (kind.masks)(&model)?;
            let plain = self.device.clone().inner();
            let found = self.task.evaluate(self.data, &(kind.inner)(&model).valid(), &plain);
            let report = EpochReport {
                phase: kind.phase,
                epoch: state.epoch + 1,
                epochs: kind.epochs,
                loss: state.loss / self.steps_per_epoch as f64,
                metric: found.name.clone(),
                value: found.value,
                sparsity: masks.sparsity,
                patterns: masks.patterns,
                mask_changed: masks.changed,
                mask_seconds: masks.seconds,
                seconds: started.elapsed().as_secs_f64(),
            };
            observer.epoch(&report);
            self.folder.log(&report)?;
            state.seconds += report.seconds;
            (state.epoch, state.step, state.loss) = (state.epoch + 1, 0, 0.0);
            let outdone = self.remember(state, &model, &kind, found)?;
            self.folder.save(state, &model, &optimizer)?;
            outdone.iter().for_each(|best| self.folder.forget(best));
        }
        let best = state.best.take_if(|_| self.recipe.train.keep == Keep::Best);
        if let Some(best) = best {
            if best.epoch < state.epoch {
                model = self.folder.load_best(&best, model)?;
            }
            // From here on it is the phase's last model, wherever the run is killed.
            state.epoch = kind.epochs;
            self.folder.save(state, &model, &optimizer)?;
            self.folder.forget(&best);
        }
        Ok(Some(model))
    }

    /// The rest of an epoch.
    fn epoch<W>(
        &self,
        state: &mut State,
        mut model: W,
        optimizer: &mut ModuleOptimizer,
        kind: &Kind<'_, W, T::Model>,
        observer: &mut dyn Observer,
    ) -> Result<Epoch<W>, RunError>
    where
        W: TrainStep<Input = <T::Model as TrainStep>::Input, Output = ClassificationOutput>
            + Module
            + ModuleDisplay,
    {
        let table = &self.recipe.train;
        let (phase, steps) = (kind.phase, self.steps_per_epoch);
        let (order, draw) = self.order(phase, state.epoch);
        for indices in order.chunks(table.batch_size).skip(state.step) {
            let done = state.epoch * steps + state.step;
            let rate = (kind.rate)(table, done as f64 / (kind.epochs * steps) as f64);
            // Dropout draws from the device. What it draws is not to depend on where a session began. (Backends
            // have one stream for all their devices: what each of several draws may depend on who comes first.)
            self.device.seed(draw.wrapping_add(state.step as u64));
            let one = |model: &W, indices: &[usize], device: &Device| {
                self.output(model, Samples { indices, draw }, device, kind)
            };
            let (loss, grads) = match self.devices {
                [device] => {
                    let output = one(&model, indices, device);
                    (loss(&output.item), output.grads)
                }
                devices => parallel::step(&model, devices, indices, one, loss, samples),
            };
            if !loss.is_finite() {
                let (phase, epoch, step) = (phase.name(), state.epoch + 1, state.step + 1);
                return Err(RunError::Diverged { phase, epoch, step, loss });
            }
            model = model.optimize(optimizer, rate.into(), grads);
            state.step += 1;
            state.loss += loss;
            observer.step(phase, state.epoch + 1, state.step, steps, loss);
            if observer.interrupted() {
                return Ok(Epoch { model, interrupted: true });
            }
        }
        Ok(Epoch { model, interrupted: false })
    }

    /// A step on one device.
    fn output<W>(
        &self,
        model: &W,
        samples: Samples<'_>,
        device: &Device,
        kind: &Kind<'_, W, T::Model>,
    ) -> TrainOutput<ClassificationOutput>
    where
        W: TrainStep<Input = <T::Model as TrainStep>::Input, Output = ClassificationOutput>,
    {
        let batch = self.task.batch(self.data, samples, device);
        let (Some(teacher), Some(distill)) = (kind.teacher, &self.recipe.train.distill) else {
            return model.step(batch);
        };
        let plain = device.clone().inner();
        let seen = self.task.batch(self.data, samples, &plain);
        let taught = match device == self.device {
            true => InferenceStep::step(teacher, seen),
            false => InferenceStep::step(&teacher.clone().to_device(&plain), seen),
        };
        distilled((kind.inner)(model), batch, taught.output, distill)
    }

    /// Whether the metric has been no better for as long as the recipe is patient.
    fn is_over(&self, state: &State) -> bool {
        let patience = self.recipe.train.patience.zip(state.best.as_ref());
        patience.is_some_and(|(epochs, best)| state.epoch >= best.epoch + epochs)
    }

    /// Notes the epoch just done if it is the best so far, and gives back the one it outdoes.
    fn remember<W: Module>(
        &self,
        state: &mut State,
        model: &W,
        kind: &Kind<'_, W, T::Model>,
        found: Metric,
    ) -> Result<Option<Best>, RunError> {
        let better = |best: &Best| match self.task.lower_is_better() {
            true => found.value < best.value,
            false => found.value > best.value,
        };
        let is_best = (kind.may_be_last)(model) && state.best.as_ref().is_none_or(better);
        let keep = self.recipe.train.keep;
        if kind.phase == Phase::Dense && (is_best || keep == Keep::Last) {
            state.dense_metric = Some(found.clone());
        }
        if !is_best {
            return Ok(None);
        }
        let best = Best::new(kind.phase, state.epoch, found.value);
        if keep == Keep::Best {
            self.folder.save_best(&best, model)?;
        }
        Ok(state.best.replace(best))
    }

    /// The order of an epoch's samples, and what draws their variations: its own stream of the seed, so that
    /// it does not depend on where a session began.
    fn order(&self, phase: Phase, epoch: usize) -> (Vec<usize>, u64) {
        let mut order: Vec<usize> = (0..self.task.train_len()).collect();
        let mut random = ChaCha8Rng::seed_from_u64(self.recipe.seed);
        random.set_stream(2 * epoch as u64 + u64::from(phase == Phase::Prune));
        order.shuffle(&mut random);
        self.task.arrange(self.data, &mut order, self.recipe.train.batch_size, &mut random);
        (order, random.next_u64())
    }
}

/// An epoch's end, or what there is of it.
struct Epoch<W> {
    model: W,
    interrupted: bool,
}
