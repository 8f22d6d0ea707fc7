use std::time::Instant;

use crate::recipe::{Keep, Recipe};
use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use burn_sparse::distributed::{Ranks, Traffic};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::memory::trained_bytes;
use super::phase::PhaseKind;
use super::shared_folder::SharedFolder;
use super::state::{Best, EpochPart, State};
use super::{EpochReport, Observer, Phase, RunError, StepTimes, StepTraffic, gradients};
use crate::{Metric, Samples, Task, Teacher};

/// Distance of the ranks' seeds (the golden ratio of 64 bits).
const RANK_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Everything that is constant during a run.
pub(super) struct Session<'a, T: Task> {
    pub(super) task: &'a T,
    pub(super) recipe: &'a Recipe,
    pub(super) data: &'a T::Data,
    pub(super) folder: SharedFolder<'a>,
    pub(super) ranks: &'a Ranks,
    /// Device of the model and its optimizer.
    pub(super) device: &'a Device,
    /// All devices that share a batch, including [`Self::device`].
    pub(super) devices: &'a [Device],
    pub(super) steps_per_epoch: usize,
}

impl<T: Task> Session<'_, T> {
    /// Trains the rest of a phase; returns `None` if the observer interrupted it.
    pub(super) fn phase<K: PhaseKind<T::Model>>(
        &self,
        state: &mut State,
        mut model: K::Model,
        mut optimizer: ModuleOptimizer,
        teacher: Option<&T::Model>,
        observer: &mut dyn Observer,
    ) -> Result<Option<K::Model>, RunError> {
        let epochs = K::epochs(&self.recipe.train);
        K::compare_masks(&model, self.ranks)?;
        while state.epoch < epochs && !self.is_over(state) {
            let started = Instant::now();
            let done = self.epoch::<K>(state, model, &mut optimizer, teacher, observer)?;
            model = done.model;
            if done.interrupted {
                // A resumed run would not know of a failed update.
                K::check_updates(&model)?;
                let seconds = started.elapsed().as_secs_f64();
                state.seconds += seconds;
                let part = EpochPart { seconds, ..K::masks(&model)?.updates };
                state.part = state.part.with(part);
                self.save::<K>(state, &model, &optimizer)?;
                return Ok(None);
            }
            let found = self.report::<K>(state, &model, started, done.times, observer)?;
            let (recorded, optimizer) = K::recorded(&model, &optimizer)?;
            let outdone = self.remember::<K>(state, &recorded, found)?;
            self.folder.write(|folder| {
                folder.save(state, &recorded, &optimizer)?;
                outdone.iter().for_each(|best| folder.forget(best));
                Ok(())
            })?;
        }
        let best = state.best.take_if(|_| self.recipe.train.keep == Keep::Best);
        if let Some(best) = best {
            if best.epoch < state.epoch {
                let (recorded, _) = K::recorded(&model, &optimizer)?;
                model = self.folder.load_best(&best, recorded)?;
            }
            // From here on it is the last model of the phase, whenever the run is killed.
            state.epoch = epochs;
            self.save::<K>(state, &model, &optimizer)?;
            self.folder.write(|folder| {
                folder.forget(&best);
                Ok(())
            })?;
        }
        Ok(Some(model))
    }

    fn save<K: PhaseKind<T::Model>>(
        &self,
        state: &mut State,
        model: &K::Model,
        optimizer: &ModuleOptimizer,
    ) -> Result<(), RunError> {
        let (model, optimizer) = K::recorded(model, optimizer)?;
        self.folder.write(|folder| folder.save(state, &model, &optimizer))
    }

    /// Evaluates a model on rank 0.
    pub(super) fn evaluate(&self, model: &T::Model) -> Result<Metric, RunError> {
        let device = self.device.clone().inner();
        evaluate(self.task, self.data, model, &device, self.ranks)
    }

    /// Evaluates the model after an epoch, and reports it.
    fn report<K: PhaseKind<T::Model>>(
        &self,
        state: &mut State,
        model: &K::Model,
        started: Instant,
        times: Times,
        observer: &mut dyn Observer,
    ) -> Result<Metric, RunError> {
        let masks = K::masks(model)?;
        let found = self.evaluate(&K::inner(model).valid())?;
        let of_session = EpochPart { seconds: started.elapsed().as_secs_f64(), ..masks.updates };
        let whole = std::mem::take(&mut state.part).with(of_session);
        let report = EpochReport {
            phase: K::PHASE,
            epoch: state.epoch + 1,
            epochs: K::epochs(&self.recipe.train),
            loss: state.loss / self.steps_per_epoch as f64,
            metric: found.name.clone(),
            value: found.value,
            sparsity: masks.sparsity,
            patterns: masks.patterns,
            mask_changed: whole.changed_share(),
            mask_seconds: whole.mask_seconds,
            seconds: whole.seconds,
            steps: StepTimes {
                masked: times.masked.mean(),
                packed: times.packed.mean(),
                masked_traffic: times.masked.traffic(),
                packed_traffic: times.packed.traffic(),
            },
            ranks: self.ranks.size(),
            trained_bytes: trained_bytes(model, &self.recipe.train.optimizer),
        };
        if self.ranks.is_first() {
            observer.epoch(&report);
        }
        self.folder.write(|folder| folder.log(&report))?;
        state.seconds += of_session.seconds;
        (state.epoch, state.step, state.loss) = (state.epoch + 1, 0, 0.0);
        Ok(found)
    }

    /// Trains the rest of an epoch.
    fn epoch<K: PhaseKind<T::Model>>(
        &self,
        state: &mut State,
        mut model: K::Model,
        optimizer: &mut ModuleOptimizer,
        teacher: Option<&T::Model>,
        observer: &mut dyn Observer,
    ) -> Result<Epoch<K::Model>, RunError> {
        let config = &self.recipe.train;
        let (phase, steps) = (K::PHASE, self.steps_per_epoch);
        let (order, draw) = self.order(phase, state.epoch);
        let (mut times, resumed_at) = (Times::default(), state.step);
        for indices in order.chunks(config.batch_size).skip(state.step) {
            let done = state.epoch * steps + state.step;
            let progress = done as f64 / (K::epochs(config) * steps) as f64;
            let rate = K::learning_rate(config, progress);
            model = K::prepare(model, optimizer, config.compute)?;
            let started = Instant::now();
            self.ranks.take_traffic();
            // Seeds dropout, which must not depend on where a session began, and differs between ranks. (Backends have one
            // random stream for all their devices: with several devices, what each draws may depend on their order.)
            let of_rank = (self.ranks.rank() as u64).wrapping_mul(RANK_SEED);
            self.device.seed(draw.wrapping_add(state.step as u64).wrapping_add(of_rank));
            let one = |model: &K::Model, indices: &[usize], device: &Device| {
                let moved = teacher.filter(|_| device != self.device);
                let moved = moved.map(|teacher| teacher.clone().to_device(&device.clone().inner()));
                let teacher = moved.as_ref().or(teacher).zip(config.distill.as_ref());
                let teacher = teacher.map(|(model, distill)| Teacher { model, distill });
                let samples = Samples { indices, draw };
                self.task.loss(K::inner(model), self.data, samples, teacher, device)
            };
            let share = self.ranks.share(indices);
            let found = gradients::step(&model, self.devices, share, config.micro_batch, one);
            let predictions = found.predictions;
            let loss = self.ranks.mean(found.loss, predictions);
            if !loss.is_finite() {
                let (phase, epoch, step) = (phase.name(), state.epoch + 1, state.step + 1);
                return Err(RunError::Diverged { phase, epoch, step, loss });
            }
            let grads = self.ranks.average(&model, found.grads, predictions)?;
            let grads = match config.clip {
                Some(most) => gradients::clip(K::norm, &model, grads, most, self.ranks)?,
                None => grads,
            };
            let form = if K::is_packed(&model) { &mut times.packed } else { &mut times.masked };
            model = K::optimize(model, optimizer, rate, grads);
            model = self.ranks.average_statistics(model, predictions);
            if K::is_updated(&model) {
                K::compare_masks(&model, self.ranks)?;
            } else {
                form.add(started, self.ranks);
            }
            state.step += 1;
            state.loss += loss;
            observer.step(phase, state.epoch + 1, state.step, steps, loss);
            if self.ranks.any(observer.interrupted()) {
                return Ok(Epoch { model, times, interrupted: true });
            }
        }
        if state.step == resumed_at && !K::is_updated(&model) {
            // The run was interrupted after the last step, which had packed the model.
            model = K::prepare(model, optimizer, config.compute)?;
        }
        Ok(Epoch { model, times, interrupted: false })
    }

    /// Returns `true` if the metric has not improved within the recipe's patience.
    fn is_over(&self, state: &State) -> bool {
        let patience = self.recipe.train.patience.zip(state.best.as_ref());
        patience.is_some_and(|(epochs, best)| state.epoch >= best.epoch + epochs)
    }

    /// Records the epoch if it is the best so far, and returns the one that it replaces.
    fn remember<K: PhaseKind<T::Model>>(
        &self,
        state: &mut State,
        model: &K::Model,
        found: Metric,
    ) -> Result<Option<Best>, RunError> {
        let better = |best: &Best| match self.task.lower_is_better() {
            true => found.value < best.value,
            false => found.value > best.value,
        };
        let is_best = K::may_be_last(model)? && state.best.as_ref().is_none_or(better);
        let keep = self.recipe.train.keep;
        if K::PHASE == Phase::Dense && (is_best || keep == Keep::Last) {
            state.dense_metric = Some(found.clone());
        }
        if !is_best {
            return Ok(None);
        }
        let best = Best::new(K::PHASE, state.epoch, found.value);
        if keep == Keep::Best {
            self.folder.write(|folder| folder.save_best(&best, model))?;
        }
        Ok(state.best.replace(best))
    }

    /// Returns the order of an epoch's samples and the seed of their augmentation, from the epoch's own random stream: they do
    /// not depend on where a session began.
    fn order(&self, phase: Phase, epoch: usize) -> (Vec<usize>, u64) {
        let mut order: Vec<usize> = (0..self.task.train_len()).collect();
        let mut random = ChaCha8Rng::seed_from_u64(self.recipe.seed);
        random.set_stream(2 * epoch as u64 + u64::from(phase == Phase::Prune));
        order.shuffle(&mut random);
        self.task.arrange(self.data, &mut order, self.recipe.train.batch_size, &mut random);
        (order, random.next_u64())
    }
}

/// Model after an epoch, or after the part of it before an interruption.
struct Epoch<W> {
    model: W,
    times: Times,
    interrupted: bool,
}

/// Times of the steps of an epoch in this session that updated no masks, by the form of pruned weights.
#[derive(Clone, Copy, Default)]
struct Times {
    masked: Mean,
    packed: Mean,
}

#[derive(Clone, Copy, Default)]
struct Mean {
    seconds: f64,
    count: usize,
    /// `None` with one rank.
    traffic: Option<Traffic>,
}

impl Mean {
    fn add(&mut self, started: Instant, ranks: &Ranks) {
        self.seconds += started.elapsed().as_secs_f64();
        self.count += 1;
        if ranks.size() > 1 {
            let (sum, step) = (self.traffic.get_or_insert_default(), ranks.take_traffic());
            sum.bytes += step.bytes;
            sum.seconds += step.seconds;
        }
    }

    fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.seconds / self.count as f64)
    }

    fn traffic(self) -> Option<StepTraffic> {
        let Traffic { bytes, seconds, .. } = self.traffic?;
        let share = (seconds / self.seconds).clamp(0.0, 1.0);
        Some(StepTraffic { bytes: bytes as f64 / self.count as f64, share })
    }
}

/// Evaluates a model on rank 0, for all ranks.
pub(super) fn evaluate<T: Task>(
    task: &T,
    data: &T::Data,
    model: &T::Model,
    device: &Device,
    ranks: &Ranks,
) -> Result<Metric, RunError> {
    let message = ranks.lead(|| {
        let Metric { name, value } = task.evaluate(data, model, device)?.finite()?;
        // Identical to the bit: all ranks use it to decide which epoch is the best.
        Ok::<_, RunError>([&value.to_le_bytes(), name.as_bytes()].concat())
    })?;
    let (value, name) = message.split_at(8);
    let value = f64::from_le_bytes(value.try_into().unwrap_or_default());
    Ok(Metric { name: String::from_utf8_lossy(name).into_owned(), value })
}
