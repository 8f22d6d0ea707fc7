//! Helpers shared by test models.

use std::sync::{Mutex, PoisonError};

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, ExecutionError, Tensor};
use burn::train::ItemLazy;
use burn_sparse::plan::Plan;
use burn_sparse::recipe::Recipe;
use burn_sparse::train::Pruned;

/// Placeholder for the unused output of a training step.
#[derive(Debug)]
pub struct Loss;

impl ItemLazy for Loss {
    fn sync(self) -> Result<Self, ExecutionError> {
        Ok(self)
    }
}

/// Builds a model whose parameters depend only on the seed.
///
/// Draws under a lock and reads every parameter, because all tests of a process share one random number stream, and a
/// parameter is drawn when it is first read.
pub fn seeded<M: Module>(device: &Device, seed: u64, build: impl FnOnce(&Device) -> M) -> M {
    static DRAWING: Mutex<()> = Mutex::new(());
    let _alone = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
    device.seed(seed);
    let model = build(device);
    model.visit(&mut Read);
    model
}

struct Read;

impl ModuleVisitor for Read {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        param.val();
    }
}

/// Prunes the model in one shot with these `[[prune]]` keys, without training.
///
/// # Panics
/// Panics if the keys are invalid or do not fit the model.
pub fn one_shot<M: Module>(model: M, keys: &str) -> Pruned<M> {
    let recipe: Recipe =
        format!("version = 1\ntask = \"test\"\n[[prune]]\nend = \"0 steps\"\n{keys}\n")
            .parse()
            .expect("keys of a recipe");
    let plan = Plan::new(&recipe, &model, 1).expect("a plan");
    plan.attach(model).and_then(|sparse| sparse.finish()).expect("masks of the plan")
}
