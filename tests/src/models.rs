//! Helpers shared by test models.

use std::sync::{Mutex, PoisonError};

use burn::config::Config;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, ExecutionError, Tensor};
use burn::train::ItemLazy;
use burn_sparse::train::Pruned;
use burn_sparse_run::recipe::Recipe;

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

/// Converts a configuration of one of our layers into that of Burn's layer: they have the same fields.
///
/// # Panics
/// Panics if they differ in a field.
pub fn stock<C: Config, S: Config>(config: &C) -> S {
    let fields = serde_json::to_value(config).expect("a configuration");
    serde_json::from_value(fields).expect("the same fields")
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
    let plan = recipe.plan(&model, 1).expect("a plan");
    plan.attach(model).and_then(|sparse| sparse.finish()).expect("masks of the plan")
}
