use std::path::Path;

use burn::module::Module;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamWConfig, ModuleOptimizer, SgdConfig};
use burn::tensor::Device;
use burn_sparse::checkpoint::{Checkpoint, Form};
use burn_sparse::plan::Plan;
use burn_sparse::recipe::{OptimizerSpec, Recipe};
use burn_sparse::train::Sparse;

use super::folder::State;
use super::session::{Kind, Masks, Session};
use super::{Observer, Phase, RunError, RunFolder, Trained};
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
/// brings.
///
/// # Errors
/// When data, plan, masks or files are at fault; what was saved stays.
pub fn train<T: Task>(
    task: &T,
    recipe: &Recipe,
    data_dir: Option<&Path>,
    folder: &RunFolder,
    begin: Begin<'_>,
    device: &Device,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let table = &recipe.train;
    let steps_per_epoch = task.train_len().div_ceil(table.batch_size);
    let device = device.clone().autodiff();
    device.seed(recipe.seed);
    let resume = matches!(begin, Begin::Resume);
    let initial = match begin {
        Begin::Fresh => None,
        Begin::From(checkpoint) => Some(checkpoint.clone()),
        Begin::Resume => folder.initial()?,
    };
    let mut fresh = task.model(&device);
    if let Some(initial) = &initial {
        fresh = initial.apply(fresh, Form::Dense)?;
    }
    // Whatever is wrong is said before any data is loaded or any file is written.
    let masks = match &initial {
        Some(initial) if table.keep_zeros => {
            Start::Kept(initial.keep_zeros(fresh.clone(), recipe, steps_per_epoch)?)
        }
        _ => Start::Planned(Plan::new(recipe, &fresh, steps_per_epoch)?),
    };
    let data = task.load(data_dir, recipe.seed)?;
    let first = if table.dense_epochs > 0 { Phase::Dense } else { Phase::Prune };
    let mut state = match resume {
        true => folder.resume(recipe, first)?,
        false => {
            folder.create(recipe, initial.as_ref())?;
            State::new(first)
        }
    };
    let session = Session { task, recipe, data: &data, folder, device: &device, steps_per_epoch };
    let mut resumed = (resume && state.is_saved()).then(|| state.clone());

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
            sound: |_| Ok(()),
        };
        let Some(model) = session.phase(&mut state, dense, optimizer, kind, observer)? else {
            return Ok(Outcome::Interrupted);
        };
        dense = model;
        state = state.into_prune();
    }

    let mut sparse = match masks {
        // There is no dense phase then, so nothing has been trained yet.
        Start::Kept(sparse) => sparse,
        Start::Planned(plan) => plan.attach(dense)?,
    };
    let mut fine_tuner = optimizer(&table.optimizer);
    match resumed {
        Some(state) => {
            sparse = folder.load_model(&state, sparse)?;
            // What attaching did to the fresh model is not part of the run.
            sparse.take_journal()?;
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
        sound: |model: &Sparse<T::Model>| Ok(model.sound()?),
    };
    let Some(sparse) = session.phase(&mut state, sparse, fine_tuner, kind, observer)? else {
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
