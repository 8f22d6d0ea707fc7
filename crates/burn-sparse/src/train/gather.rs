//! Reading and writing the state of all masks of a module.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId, Reparameterization};
use burn::optim::GradientsParams;
use burn::tensor::{Int, Tensor};

use super::masked::{Masked, bytes, ids};
use crate::modules::Path;

/// A weight and its mask on the host, as the layer stores them.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) base: Vec<f32>,
    pub(crate) keep: Vec<u8>,
    pub(crate) row_order: Vec<u32>,
    /// Whether other devices hold a copy that steps on its own.
    pub(crate) replicated: bool,
}

/// The weights and masks of `names`.
pub(crate) fn gather<M: Module>(module: &M, names: &[&str]) -> BTreeMap<String, State> {
    let mut gather = Gather { path: Path::default(), names, found: BTreeMap::new() };
    module.visit(&mut gather);
    gather.found
}

struct Gather<'a> {
    path: Path,
    names: &'a [&'a str],
    found: BTreeMap<String, State>,
}

impl ModuleVisitor for Gather<'_> {
    fn enter_module(&mut self, name: &str, kind: &str) {
        self.path.enter(name, kind);
    }

    fn exit_module(&mut self, _name: &str, _kind: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let name = self.path.name();
        if self.names.contains(&name.as_str()) {
            let base = param.base();
            let state = self.found.entry(name).or_default();
            state.replicated = base.is_autodiff() && base.is_distributed();
            let data = base.into_data().convert::<f32>();
            state.base = data.try_into_vec().unwrap_or_default();
        }
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        let Some((name, state)) = self.path.state_of(Masked::NAME) else { return };
        let Some(found) = self.found.get_mut(&name) else { return };
        let data = param.val().into_data();
        match state {
            "keep" => found.keep = data.convert::<u8>().try_into_vec().unwrap_or_default(),
            "row_order" => {
                found.row_order = data.convert::<u32>().try_into_vec().unwrap_or_default();
            }
            _ => {}
        }
    }
}

/// What becomes of one weight's mask.
pub(crate) struct Change {
    pub(crate) keep: Vec<u8>,
    pub(crate) row_order: Vec<u32>,
    /// Which stored weights stay as they are, 1 each; all others become zero. Nothing changes without.
    pub(crate) stays: Option<Vec<u8>>,
    /// Of which weights the optimizer's state stays, 1 each; all of it without.
    pub(crate) state_stays: Option<Vec<u8>>,
}

/// Puts new masks in place.
pub(crate) fn apply<M: Module>(module: M, changes: &BTreeMap<String, Change>) -> M {
    module.map(&mut Apply { path: Path::default(), changes })
}

struct Apply<'a> {
    path: Path,
    changes: &'a BTreeMap<String, Change>,
}

impl ModuleMapper for Apply<'_> {
    fn enter_module(&mut self, name: &str, kind: &str) {
        self.path.enter(name, kind);
    }

    fn exit_module(&mut self, _name: &str, _kind: &str) {
        self.path.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let change = self.changes.get(&self.path.name());
        let Some(stays) = change.and_then(|change| change.stays.as_ref()) else { return param };
        let (id, weight, mapper) = param.consume();
        let weight = edit_leaf(id, weight, |weight| {
            let stays = bytes(stays.clone(), &weight.device());
            burn_sparse_kernels::masked(weight, stays)
        });
        Param::from_mapped_value(id, weight, mapper)
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        let Some((name, state)) = self.path.state_of(Masked::NAME) else { return param };
        let Some(change) = self.changes.get(&name) else { return param };
        let device = param.lazy_device();
        let value = match state {
            "keep" => bytes(change.keep.clone(), &device),
            "row_order" => ids(change.row_order.clone(), &device),
            _ => return param,
        };
        let (id, _, mapper) = param.consume();
        Param::from_mapped_value(id, value, mapper)
    }
}

/// Changes a weight outside the autodiff graph and makes it a leaf again, with everything a leaf
/// carries; a tensor computed on the graph would silently stop training.
pub(super) fn edit_leaf<const D: usize>(
    id: ParamId,
    weight: Tensor<D>,
    edit: impl FnOnce(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    if !weight.is_autodiff() {
        return edit(weight);
    }
    let (trained, distributed) = (weight.is_require_grad(), weight.is_distributed());
    let checkpointing = weight.gradient_checkpointing_strategy();
    let mut edited = Tensor::from_inner(edit(weight.inner()));
    if let Some(strategy) = checkpointing {
        edited = edited.with_gradient_checkpointing_strategy(strategy);
    }
    if trained {
        edited = edited.require_grad();
    }
    if distributed {
        edited = edited.set_distributed(id);
    }
    edited
}

/// The mask of a weight as tensors.
pub(crate) struct MaskTensors {
    /// A byte for each weight, as the layer stores them, flat.
    pub(crate) keep: Tensor<1, Int>,
    /// The row at every place.
    pub(crate) row_order: Tensor<1, Int>,
}

/// The masks of all weights, by path.
pub(crate) fn states<M: Module>(module: &M) -> BTreeMap<String, MaskTensors> {
    let mut states = States { path: Path::default(), keep: None, found: BTreeMap::new() };
    module.visit(&mut states);
    states.found
}

struct States {
    path: Path,
    keep: Option<Tensor<1, Int>>,
    found: BTreeMap<String, MaskTensors>,
}

impl ModuleVisitor for States {
    fn enter_module(&mut self, name: &str, kind: &str) {
        self.path.enter(name, kind);
    }

    fn exit_module(&mut self, _name: &str, _kind: &str) {
        self.path.exit();
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        let Some((name, state)) = self.path.state_of(Masked::NAME) else { return };
        let value = param.val();
        let elements = value.shape().num_elements();
        let value = value.reshape([elements]);
        // The fields of `Masked`, in their order.
        match (state, self.keep.take()) {
            ("keep", _) => self.keep = Some(value),
            ("row_order", Some(keep)) => {
                self.found.insert(name, MaskTensors { keep, row_order: value });
            }
            _ => {}
        }
    }
}

/// The gradients of weights on the host, by path; those the loss does not reach are left out.
pub(crate) fn gather_gradients<M: Module>(
    module: &M,
    names: &[&str],
    grads: &GradientsParams,
) -> BTreeMap<String, Vec<f32>> {
    let mut found = Gradients { path: Path::default(), names, grads, found: BTreeMap::new() };
    module.visit(&mut found);
    found.found
}

struct Gradients<'a> {
    path: Path,
    names: &'a [&'a str],
    grads: &'a GradientsParams,
    found: BTreeMap<String, Vec<f32>>,
}

impl ModuleVisitor for Gradients<'_> {
    fn enter_module(&mut self, name: &str, kind: &str) {
        self.path.enter(name, kind);
    }

    fn exit_module(&mut self, _name: &str, _kind: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let name = self.path.name();
        if self.names.contains(&name.as_str())
            && let Some(gradient) = self.grads.get::<D>(param.id)
        {
            let data = gradient.into_data().convert::<f32>();
            self.found.insert(name, data.try_into_vec().unwrap_or_default());
        }
    }
}
