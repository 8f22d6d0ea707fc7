use std::time::Instant;

use crate::recipe::{Recipe, RecipeError};
use burn::module::Module;
use burn::tensor::Device;
use burn_sparse::checkpoint::Checkpoint;
use burn_sparse::distributed::Ranks;
use burn_sparse::prune::Plan;
use burn_sparse::train::Sparse;

use super::freeze::freeze;
use super::optimizer::optimizer;
use super::phase::{DensePhase, PrunePhase};
use super::session::{Session, evaluate};
use super::shared_folder::SharedFolder;
use super::state::State;
use super::{DataSource, Observer, Phase, RunError, RunFolder, Trained};
use crate::Task;

/// Outcome of a run.
#[derive(Debug)]
pub enum Outcome {
    /// The run was interrupted and can be resumed.
    Interrupted,
    /// The run is finished.
    Trained(Box<Trained>),
    /// The run is finished, and rank 0 has its results.
    Assisted,
}

/// Starting point of a run.
#[derive(Debug, Clone, Copy)]
pub enum Begin<'a> {
    /// With freshly initialized parameters.
    Fresh,
    /// With the parameters of a checkpoint.
    From(&'a Checkpoint),
    /// Resume the run of the folder.
    Resume,
}

/// Inputs of [`train`].
pub struct TrainOptions<'a, T: Task> {
    /// Task.
    pub task: &'a T,
    /// Recipe.
    pub recipe: &'a Recipe,
    /// Source of the data.
    pub source: &'a DataSource<'a, T>,
    /// Folder of the run.
    pub folder: &'a RunFolder,
    /// Start of the run.
    pub begin: Begin<'a>,
    /// Devices. The first one holds the model; all take their share of every batch.
    pub devices: &'a [Device],
    /// Ranks that train together, each with its share of every batch; see [`Ranks::alone`]. All must be able to read the data,
    /// a pretrained model, and a checkpoint to start from; rank 0 alone writes the folder.
    pub ranks: &'a Ranks,
}

/// Trains a task by its recipe: dense first, then under the ramp, or under the fixed masks of a checkpoint.
///
/// # Errors
/// Returns an error when data, plan, masks, files, or another rank fail; what has been saved stays. All ranks return
/// an error together.
pub fn train<T: Task>(
    options: &TrainOptions<'_, T>,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let TrainOptions { task, recipe, source, folder, begin, devices: _, ranks } = *options;
    let config = &recipe.train;
    let steps_per_epoch = task.train_len().div_ceil(config.batch_size);
    // Reports everything that can be wrong before loading data or writing a file.
    let prepared = ranks.agree(Prepared::new(options, steps_per_epoch))?;
    let Prepared { devices, initial, fresh, masks } = prepared;
    let given = (recipe.to_toml(), matches!(begin, Begin::Resume), initial.is_some());
    let given = format!("{given:?}");
    ranks.require_equal(given.as_bytes(), "has another recipe or checkpoint than rank 0")?;
    let device = devices.first().ok_or(RunError::NoDevice)?;
    let fresh = ranks.broadcast(fresh)?;
    // Rank 0 may download data that the others then find.
    let load = || source.load(task, recipe.seed);
    ranks.agree(ranks.is_first().then(load).transpose())?;
    let data = ranks.agree(load())?;
    let shared = SharedFolder::new(folder, ranks);

    let resume = matches!(begin, Begin::Resume);
    let first = if config.dense_epochs > 0 { Phase::Dense } else { Phase::Prune };
    // The score of a pretrained model, which also checks its data.
    let is_scored = first == Phase::Prune && task.folder().is_some() && initial.is_none();
    let score = || evaluate(task, &data, &fresh.valid(), &device.clone().inner(), ranks);
    let mut pretrained = (is_scored && !resume).then(score).transpose()?;
    let (mut state, _lock) = match resume {
        true => shared.resume(recipe, first)?,
        false => (State::new(first), shared.create(recipe, initial.as_ref())?),
    };
    if is_scored && resume && !state.is_saved() {
        pretrained = Some(score()?);
    }
    state.dense_metric = pretrained.or(state.dense_metric);
    let session = Session {
        task,
        recipe,
        data: &data,
        folder: shared,
        ranks,
        device,
        devices: &devices,
        steps_per_epoch,
    };
    let mut resumed = resume && state.is_saved();

    let mut dense = fresh;
    if state.phase == Phase::Dense {
        let Some(trained) = session.dense(&mut state, dense, resumed, observer)? else {
            return Ok(Outcome::Interrupted);
        };
        (dense, state, resumed) = (trained, state.into_prune(), false);
    }
    let Some(sparse) = session.prune(&mut state, dense, masks, resumed, observer)? else {
        return Ok(Outcome::Interrupted);
    };
    let mut trained = None;
    shared.write(|folder| {
        trained = Some(session.finish(sparse.finish()?, state, folder)?);
        Ok(())
    })?;
    Ok(trained.map_or(Outcome::Assisted, |trained| Outcome::Trained(Box::new(trained))))
}

/// Model and masks at the start of a run.
struct Prepared<T: Task> {
    devices: Vec<Device>,
    /// Checkpoint that the run started from.
    initial: Option<Checkpoint>,
    fresh: T::Model,
    masks: Start<T::Model>,
}

impl<T: Task> Prepared<T> {
    fn new(options: &TrainOptions<'_, T>, steps_per_epoch: usize) -> Result<Self, RunError> {
        let TrainOptions { task, recipe, folder, begin, devices, ranks, .. } = *options;
        let config = &recipe.train;
        task.check(recipe)?;
        if ranks.is_first() {
            match begin {
                Begin::Resume => folder.expect_recipe(recipe)?,
                _ if folder.is_begun() => {
                    return Err(RunError::Occupied { folder: folder.path().into() });
                }
                _ => {}
            }
        }
        let trains = |device: &Device| match config.checkpoint_activations {
            true => device.clone().autodiff().gradient_checkpointing(),
            false => device.clone().autodiff(),
        };
        let devices: Vec<Device> = devices.iter().map(trains).collect();
        let device = devices.first().ok_or(RunError::NoDevice)?;
        device.seed(recipe.seed);
        let initial = match begin {
            Begin::Fresh => None,
            Begin::From(checkpoint) => Some(checkpoint.clone()),
            Begin::Resume => folder.initial()?,
        };
        let fresh = match &initial {
            Some(initial) => initial.load_dense(task.model(device))?,
            None => task.pretrained(device)?,
        };
        let fresh = freeze(fresh, &config.freeze)?;
        let is_trained = initial.is_some() || task.folder().is_some();
        refuse_distillation(task, recipe, is_trained)?;
        let masks = Start::of(recipe, &fresh, initial.as_ref(), steps_per_epoch)?;
        Ok(Self { devices, initial, fresh, masks })
    }
}

/// Refuses what the recipe of a sweep's run, which starts from a dense model, asks of training and cannot have.
pub(crate) fn refuse_training<T: Task>(
    task: &T,
    recipe: &Recipe,
    model: &T::Model,
) -> Result<(), RecipeError> {
    freeze(model.clone(), &recipe.train.freeze)?;
    refuse_distillation(task, recipe, true)
}

/// Refuses distillation without a dense model, or from layers that the task cannot compare.
fn refuse_distillation<T: Task>(
    task: &T,
    recipe: &Recipe,
    is_trained: bool,
) -> Result<(), RecipeError> {
    let Some(distill) = &recipe.train.distill else { return Ok(()) };
    if recipe.train.dense_epochs == 0 && !is_trained {
        let reason = "needs a dense model to learn from: set train.dense_epochs, or start from a \
                      checkpoint (`train --from FILE`)";
        return Err(RecipeError::value("train.distill", reason));
    }
    if distill.layers > 0.0 && !task.distills_layers() {
        let reason = format!("task {} compares outputs only: leave the key out", task.name());
        return Err(RecipeError::value("train.distill.layers", reason));
    }
    Ok(())
}

/// Masks at the start of pruning.
enum Start<M: Module> {
    /// Fixed masks of a checkpoint.
    Kept(Sparse<M>),
    /// Masks that the plan attaches.
    Planned(Plan),
}

impl<M: Module> Start<M> {
    fn of(
        recipe: &Recipe,
        model: &M,
        initial: Option<&Checkpoint>,
        steps_per_epoch: usize,
    ) -> Result<Self, RunError> {
        let config = &recipe.train;
        match initial {
            Some(initial) if config.keep_zeros => {
                let (pruning, horizon) = (recipe.pruning(), recipe.horizon(steps_per_epoch));
                Ok(Self::Kept(initial.keep_zeros(model.clone(), pruning, horizon)?))
            }
            None if config.keep_zeros => {
                let reason = "is true, but there is no packed checkpoint to keep the zeros of; give one \
                              (`train --from FILE`)";
                Err(RecipeError::value("train.keep_zeros", reason).into())
            }
            _ => Ok(Self::Planned(recipe.plan(model, steps_per_epoch)?)),
        }
    }
}

impl<T: Task> Session<'_, T> {
    /// Trains without masks; returns `None` if it was interrupted.
    fn dense(
        &self,
        state: &mut State,
        mut model: T::Model,
        resumed: bool,
        observer: &mut dyn Observer,
    ) -> Result<Option<T::Model>, RunError> {
        let mut optimizer = optimizer(&self.recipe.train.optimizer);
        if resumed {
            model = self.folder.load_model(state, model)?;
            optimizer = self.folder.load_optimizer(state, optimizer)?;
        }
        self.phase::<DensePhase>(state, model, optimizer, None, observer)
    }

    /// Fine-tunes under masks; returns `None` if it was interrupted.
    fn prune(
        &self,
        state: &mut State,
        dense: T::Model,
        masks: Start<T::Model>,
        resumed: bool,
        observer: &mut dyn Observer,
    ) -> Result<Option<Sparse<T::Model>>, RunError> {
        let config = &self.recipe.train;
        let teacher = match (&config.distill, resumed) {
            (None, _) => None,
            (Some(_), true) => Some(self.folder.load_teacher(dense.clone())?.valid()),
            (Some(_), false) => {
                self.folder.write(|folder| folder.save_teacher(&dense))?;
                Some(dense.valid())
            }
        };
        let mut sparse = match masks {
            // Excludes a dense phase, so nothing has been trained yet.
            Start::Kept(sparse) => self.ranks.broadcast(sparse)?,
            Start::Planned(plan) => match &self.recipe.calibrate {
                None => plan.attach(dense)?,
                // The masks are in the record that is loaded below.
                Some(_) if resumed => plan.with_fixed_masks().attach(dense)?,
                Some(table) => {
                    let started = Instant::now();
                    let sparse = self.calibrate(plan, dense, table, observer)?;
                    state.seconds += started.elapsed().as_secs_f64();
                    sparse
                }
            },
        };
        let mut optimizer = optimizer(&config.optimizer);
        if resumed {
            sparse = self.folder.load_model(state, sparse)?;
            // The update made by attaching is not part of the run.
            sparse.take_update_stats()?;
            optimizer = self.folder.load_optimizer(state, optimizer)?;
        } else {
            // Saves at once, so that an interruption in the first epoch does not repeat the dense phase.
            self.folder.write(|folder| folder.save(state, &sparse, &optimizer))?;
        }
        self.phase::<PrunePhase>(state, sparse, optimizer, teacher.as_ref(), observer)
    }
}
