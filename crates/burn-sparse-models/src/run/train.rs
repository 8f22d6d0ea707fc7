use burn::module::Module;
use burn::tensor::Device;
use burn_sparse::checkpoint::{Checkpoint, Form};
use burn_sparse::plan::Plan;
use burn_sparse::recipe::{Recipe, RecipeError, TrainTable};
use burn_sparse::train::Sparse;

use super::optimizer::optimizer;
use super::session::{Kind, MaskReport, Session};
use super::state::State;
use super::{DataSource, Observer, Phase, RunError, RunFolder, Trained};
use crate::Task;

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    /// It was interrupted; its folder resumes it.
    Interrupted,
    /// It is finished.
    Trained(Box<Trained>),
}

/// Where a run begins.
#[derive(Debug, Clone, Copy)]
pub enum Begin<'a> {
    /// With freshly initialized parameters.
    Fresh,
    /// With the parameters of a checkpoint.
    From(&'a Checkpoint),
    /// Where the folder's run stopped.
    Resume,
}

/// Trains a task by its recipe: dense first, then under the ramp, or under the masks that a checkpoint
/// brings. The first device holds the model; where there are several, each takes its share of every batch.
///
/// # Errors
/// When data, plan, masks or files are at fault; what was saved stays.
pub fn train<T: Task>(
    task: &T,
    recipe: &Recipe,
    source: &DataSource<'_, T>,
    folder: &RunFolder,
    begin: Begin<'_>,
    devices: &[Device],
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let table = &recipe.train;
    let steps_per_epoch = task.train_len().div_ceil(table.batch_size);
    let devices: Vec<Device> = devices.iter().map(|device| device.clone().autodiff()).collect();
    let device = devices.first().ok_or(RunError::NoDevice)?;
    device.seed(recipe.seed);
    let resume = matches!(begin, Begin::Resume);
    let initial = match begin {
        Begin::Fresh => None,
        Begin::From(checkpoint) => Some(checkpoint.clone()),
        Begin::Resume => folder.initial()?,
    };
    let mut fresh = task.model(device);
    if let Some(initial) = &initial {
        fresh = initial.apply(fresh, Form::Dense)?;
    }
    // Whatever is wrong is said before any data is loaded or any file is written.
    if table.distill.is_some() && table.dense_epochs == 0 && initial.is_none() {
        let reason = "needs a dense model to learn from: set train.dense_epochs, or start from a \
                      checkpoint (`train --from FILE`)";
        let (key, reason) = ("train.distill".into(), reason.into());
        return Err(RecipeError::Value { key, reason }.into());
    }
    let masks = match &initial {
        Some(initial) if table.keep_zeros => {
            Start::Kept(initial.keep_zeros(fresh.clone(), recipe, steps_per_epoch)?)
        }
        _ => Start::Planned(Plan::new(recipe, &fresh, steps_per_epoch)?),
    };
    let data = source.load(task, recipe.seed)?;
    let first = if table.dense_epochs > 0 { Phase::Dense } else { Phase::Prune };
    let (mut state, _lock) = match resume {
        true => folder.resume(recipe, first)?,
        false => (State::new(first), folder.create(recipe, initial.as_ref())?),
    };
    let session =
        Session { task, recipe, data: &data, folder, device, devices: &devices, steps_per_epoch };
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
    let trained = session.finish(sparse.finish()?, state)?;
    Ok(Outcome::Trained(Box::new(trained)))
}

/// Where masks come from.
enum Start<M: Module> {
    Kept(Sparse<M>),
    Planned(Plan),
}

impl<T: Task> Session<'_, T> {
    /// The phase without masks; nothing comes back where it was interrupted.
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
        let kind = Kind {
            phase: Phase::Dense,
            epochs: self.recipe.train.dense_epochs,
            rate: TrainTable::dense_learning_rate,
            teacher: None,
            inner: |model: &T::Model| model,
            may_be_last: |_| true,
            masks: |_| Ok(MaskReport::default()),
            sound: |_| Ok(()),
        };
        self.phase(state, model, optimizer, kind, observer)
    }

    /// The phase under masks; nothing comes back where it was interrupted.
    fn prune(
        &self,
        state: &mut State,
        dense: T::Model,
        masks: Start<T::Model>,
        resumed: bool,
        observer: &mut dyn Observer,
    ) -> Result<Option<Sparse<T::Model>>, RunError> {
        let table = &self.recipe.train;
        let teacher = match (&table.distill, resumed) {
            (None, _) => None,
            (Some(_), true) => Some(self.folder.load_teacher(dense.clone())?.valid()),
            (Some(_), false) => {
                self.folder.save_teacher(&dense)?;
                Some(dense.valid())
            }
        };
        let mut sparse = match masks {
            // There is no dense phase then, so nothing has been trained yet.
            Start::Kept(sparse) => sparse,
            Start::Planned(plan) => plan.attach(dense)?,
        };
        let mut optimizer = optimizer(&table.optimizer);
        if resumed {
            sparse = self.folder.load_model(state, sparse)?;
            // What attaching did to the fresh model is not part of the run.
            sparse.take_journal()?;
            optimizer = self.folder.load_optimizer(state, optimizer)?;
        } else {
            // Saved at once, so that an interruption in the first epoch does not repeat the dense phase.
            self.folder.save(state, &sparse, &optimizer)?;
        }
        let kind = Kind {
            phase: Phase::Prune,
            epochs: table.prune_epochs,
            rate: TrainTable::prune_learning_rate,
            teacher: teacher.as_ref(),
            inner: Sparse::inner,
            may_be_last: |model: &Sparse<T::Model>| model.step() >= model.plan().end(),
            masks: |model: &Sparse<T::Model>| MaskReport::of(model),
            sound: |model: &Sparse<T::Model>| Ok(model.sound()?),
        };
        self.phase(state, sparse, optimizer, kind, observer)
    }
}
