//! What test models share.

use std::sync::{Mutex, PoisonError};

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, ExecutionError, Tensor};
use burn::train::ItemLazy;
use burn_sparse::plan::Plan;
use burn_sparse::recipe::Recipe;
use burn_sparse::train::Pruned;

/// The output of a training step that nobody looks at.
#[derive(Debug)]
pub struct Loss;

impl ItemLazy for Loss {
    fn sync(self) -> Result<Self, ExecutionError> {
        Ok(self)
    }
}

/// A model whose parameters depend on the seed alone: all tests of a process draw from one stream, and a
/// parameter draws when it is first read.
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

/// The model pruned at once by these `[[prune]]` keys, without training.
///
/// # Panics
/// When the keys make no sense.
pub fn one_shot<M: Module>(model: M, keys: &str) -> Pruned<M> {
    let recipe: Recipe =
        format!("version = 1\ntask = \"test\"\n[[prune]]\nend = \"0 steps\"\n{keys}\n")
            .parse()
            .expect("keys of a recipe");
    let plan = Plan::new(&recipe, &model, 1).expect("a plan");
    plan.attach(model).and_then(|sparse| sparse.finish()).expect("masks of the plan")
}
