use std::path::{Path, PathBuf};
use std::time::Instant;

use burn::module::{Module, ModuleDisplay};
use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamWConfig, ModuleOptimizer, SgdConfig};
use burn::tensor::Device;
use burn::train::TrainStep;
use burn_sparse::checkpoint::{Checkpoint, Form, Format, Provenance};
use burn_sparse::plan::Plan;
use burn_sparse::recipe::{OptimizerSpec, Recipe, TrainTable};
use burn_sparse::report::{LayerReport, layers};
use burn_sparse::train::{Pruned, Sparse};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::folder::State;
use super::{EpochReport, Observer, Phase, RunError, RunFolder};
use crate::{Metric, Task};

/// Outputs of the packed and the masked model may differ by rounding alone.
const ALLOWED_DIFFERENCE: f32 = 1e-4;

/// Test samples that the packed and the masked model are compared on, and kernels reported for.
const COMPARED: usize = 256;

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    /// It was interrupted; its folder resumes it.
    Interrupted,
    /// It is finished.
    Trained(Box<Trained>),
}

/// A finished run.
#[derive(Debug, Clone)]
pub struct Trained {
    /// The metric of the packed checkpoint, read back from its file.
    pub metric: Metric,
    /// The metric at the end of the dense phase, if there was one.
    pub dense_metric: Option<Metric>,
    /// The share of zeros of the pruned weights.
    pub sparsity: f64,
    /// The patterns, as a recipe spells them.
    pub pattern: String,
    /// Seconds of training and evaluation, over all sessions.
    pub seconds: f64,
    /// The checkpoint's file.
    pub checkpoint: PathBuf,
    /// Every matrix of the model with the kernel that ran.
    pub layers: Vec<LayerReport>,
}

/// Trains a task by its recipe, dense first, then under the ramp; `resume` goes on where the folder's
/// run stopped.
///
/// # Errors
/// When data, plan, masks or files are at fault; what was saved stays.
pub fn train<T: Task>(
    task: &T,
    recipe: &Recipe,
    data_dir: Option<&Path>,
    folder: &RunFolder,
    resume: bool,
    device: &Device,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let table = &recipe.train;
    let steps_per_epoch = task.train_len().div_ceil(table.batch_size);
    let device = device.clone().autodiff();
    device.seed(recipe.seed);
    let fresh = task.model(&device);
    let plan = Plan::new(recipe, &fresh, steps_per_epoch)?;
    let data = task.load(data_dir, recipe.seed)?;
    let first = if table.dense_epochs > 0 { Phase::Dense } else { Phase::Prune };
    let mut state = match resume {
        true => folder.resume(recipe)?,
        false => {
            folder.create(recipe)?;
            State::new(first)
        }
    };
    let session = Session { task, recipe, data: &data, folder, device: &device, steps_per_epoch };
    let mut resumed = resume.then(|| state.clone());

    let mut dense = fresh;
    if state.phase == Phase::Dense {
        let mut optimizer = optimizer(&table.optimizer);
        if let Some(state) = resumed.take() {
            dense = folder.load_model(&state, dense)?;
            optimizer = folder.load_optimizer(&state, optimizer)?;
        }
        let kind = Kind {
            phase: Phase::Dense,
            epochs: table.dense_epochs,
            inner: |model: &T::Model| model,
            masks: |_| Ok(Masks::default()),
        };
        let Some((model, metric)) = session.phase(&mut state, dense, optimizer, kind, observer)?
        else {
            return Ok(Outcome::Interrupted);
        };
        dense = model;
        state = state.into_prune(metric);
    }

    let mut sparse = plan.attach(dense)?;
    let mut fine_tuner = optimizer(&table.optimizer);
    match resumed {
        Some(state) => {
            sparse = folder.load_model(&state, sparse)?;
            fine_tuner = folder.load_optimizer(&state, fine_tuner)?;
        }
        // Saved at once, so that an interruption in the first epoch does not repeat the dense phase.
        None => folder.save(&mut state, &sparse, &fine_tuner)?,
    }
    let kind = Kind {
        phase: Phase::Prune,
        epochs: table.prune_epochs,
        inner: Sparse::inner,
        masks: |model: &Sparse<T::Model>| {
            let journal = model.take_journal()?;
            let (sparsity, _) = model.masks()?;
            Ok(Masks { sparsity, changed: journal.changed_share(), seconds: journal.seconds })
        },
    };
    let Some((sparse, _)) = session.phase(&mut state, sparse, fine_tuner, kind, observer)? else {
        return Ok(Outcome::Interrupted);
    };
    let trained = session.finish(sparse.finish()?, state)?;
    Ok(Outcome::Trained(Box::new(trained)))
}

/// What a recipe's optimizer is in Burn.
fn optimizer(spec: &OptimizerSpec) -> ModuleOptimizer {
    match *spec {
        OptimizerSpec::AdamW { weight_decay, .. } => {
            AdamWConfig::new().with_weight_decay(weight_decay as f32).init()
        }
        OptimizerSpec::Sgd { momentum, weight_decay, .. } => {
            let momentum =
                (momentum > 0.0).then(|| MomentumConfig { momentum, ..MomentumConfig::new() });
            let decay = (weight_decay > 0.0).then(|| WeightDecayConfig::new(weight_decay as f32));
            SgdConfig::new().with_momentum(momentum).with_weight_decay(decay).init()
        }
    }
}

struct Session<'a, T: Task> {
    task: &'a T,
    recipe: &'a Recipe,
    data: &'a T::Data,
    folder: &'a RunFolder,
    device: &'a Device,
    steps_per_epoch: usize,
}

/// What the loop asks of the model it trains, the task's own or the same under masks.
struct Kind<W, M> {
    phase: Phase,
    epochs: usize,
    /// The task's model inside.
    inner: fn(&W) -> &M,
    masks: fn(&W) -> Result<Masks, RunError>,
}

/// What the masks are, and what their updates did since the last look.
#[derive(Default)]
struct Masks {
    sparsity: f64,
    changed: f64,
    seconds: f64,
}

impl<T: Task> Session<'_, T> {
    /// Trains the rest of a phase; nothing comes back where the observer ended it.
    fn phase<W>(
        &self,
        state: &mut State,
        mut model: W,
        mut optimizer: ModuleOptimizer,
        kind: Kind<W, T::Model>,
        observer: &mut dyn Observer,
    ) -> Result<Option<(W, Option<Metric>)>, RunError>
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
        let mut metric = None;
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
            metric = Some(found);
            observer.epoch(&report);
            self.folder.log(&report)?;
            state.seconds += report.seconds;
            (state.epoch, state.step, state.loss) = (state.epoch + 1, 0, 0.0);
            self.folder.save(state, &model, &optimizer)?;
        }
        Ok(Some((model, metric)))
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

    /// Writes the checkpoint, reads it back and proves that it is the model that was trained.
    fn finish(&self, pruned: Pruned<T::Model>, state: State) -> Result<Trained, RunError> {
        let path = self.folder.checkpoint();
        let recipe = Some(self.recipe.clone());
        let provenance = Provenance { recipe, ..Provenance::default() };
        let mut checkpoint = Checkpoint::of(&pruned, provenance)?;
        checkpoint.write(&path, Format::Packed)?;

        let device = self.device.clone().inner();
        let masked = pruned.model.valid();
        let read = Checkpoint::read(&path)?;
        let packed = read.apply(self.task.model(&device), Form::Packed)?;
        let (a, b) = (self.outputs(&masked, &device), self.outputs(&packed, &device));
        let difference = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        // Outputs of a model that learnt nothing sensible may be large: rounding grows with them.
        let size = a.iter().map(|a| a.abs()).fold(1.0, f32::max);
        let allowed = ALLOWED_DIFFERENCE * size.max(1.0);
        if difference.is_nan() || difference > allowed {
            return Err(RunError::Unfaithful { difference, allowed });
        }
        let metric = self.task.evaluate(self.data, &packed, &device);
        let layers = layers(&packed, &read, || {
            self.outputs(&packed, &device);
        });
        let mut patterns: Vec<String> = Vec::new();
        for weight in &pruned.weights {
            let pattern = weight.pattern.to_string();
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        let trained = Trained {
            metric,
            dense_metric: state.dense_metric,
            sparsity: pruned.sparsity(),
            pattern: patterns.join(","),
            seconds: state.seconds,
            checkpoint: path.clone(),
            layers,
        };
        checkpoint.provenance.results = serde_json::json!({
            "metric": trained.metric,
            "dense_metric": trained.dense_metric,
            "sparsity": trained.sparsity,
            "output_difference": difference,
        });
        checkpoint.write(&path, Format::Packed)?;
        Ok(trained)
    }

    fn outputs(&self, model: &T::Model, device: &Device) -> Vec<f32> {
        self.task.outputs(self.data, model, COMPARED, device)
    }
}
