//! State of all masks of a module: reading it to the host, and writing changes back.

use std::collections::BTreeMap;

use burn::module::{Module, Param, Reparameterization};
use burn::optim::GradientsParams;
use burn::tensor::{Int, Tensor};

use super::masked::Masked;
use crate::params::{
    MapParams, Path, VisitParams, edit_leaf, ids, map_params, mask_bytes, visit_params,
};

/// A weight and its mask on the host, in the order the layer stores them.
#[derive(Debug, Clone, Default)]
pub(crate) struct WeightState {
    pub(crate) base: Vec<f32>,
    pub(crate) keep: Vec<u8>,
    pub(crate) row_order: Vec<u32>,
    /// `true` if other devices hold replicas that step on their own.
    pub(crate) replicated: bool,
}

/// Reads the weights and masks of `names`.
pub(crate) fn gather<M: Module>(module: &M, names: &[&str]) -> BTreeMap<String, WeightState> {
    let mut gather = Gather { names, found: BTreeMap::new() };
    visit_params(module, &mut gather);
    gather.found
}

/// Returns `true` if other devices hold replicas of a weight that step on their own, as under burn-train's `ddp`.
pub(super) fn is_replicated<const D: usize>(weight: &Tensor<D>) -> bool {
    weight.is_autodiff() && weight.is_distributed()
}

struct Gather<'a> {
    names: &'a [&'a str],
    found: BTreeMap<String, WeightState>,
}

impl VisitParams for Gather<'_> {
    fn float<const D: usize>(&mut self, path: &Path, param: &Param<Tensor<D>>) {
        let name = path.name();
        if self.names.contains(&name.as_str()) {
            let base = param.base();
            let state = self.found.entry(name).or_default();
            state.replicated = is_replicated(&base);
            let data = base.into_data().convert::<f32>();
            state.base = data.try_into_vec().unwrap_or_default();
        }
    }

    fn int<const D: usize>(&mut self, path: &Path, param: &Param<Tensor<D, Int>>) {
        let Some((name, state)) = path.state_of(Masked::NAME) else { return };
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

/// New mask of a weight.
pub(crate) struct Change {
    pub(crate) keep: Vec<u8>,
    pub(crate) row_order: Vec<u32>,
    /// Stored weights that keep their value, one byte each; the others become zero. `None` changes no weight.
    pub(crate) surviving: Option<Vec<u8>>,
}

/// Installs new masks, and zeroes weights that do not survive.
pub(crate) fn apply<M: Module>(module: M, changes: &BTreeMap<String, Change>) -> M {
    map_params(module, &mut Apply(changes))
}

struct Apply<'a>(&'a BTreeMap<String, Change>);

impl MapParams for Apply<'_> {
    fn float<const D: usize>(&mut self, path: &Path, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let change = self.0.get(&path.name());
        let Some(surviving) = change.and_then(|change| change.surviving.as_ref()) else {
            return param;
        };
        let (id, weight, mapper) = param.consume();
        let weight = edit_leaf(id, weight, |weight| {
            let surviving = mask_bytes(surviving.clone(), &weight.device());
            burn_sparse_kernels::apply_mask(weight, surviving)
        });
        Param::from_mapped_value(id, weight, mapper)
    }

    fn int<const D: usize>(
        &mut self,
        path: &Path,
        param: Param<Tensor<D, Int>>,
    ) -> Param<Tensor<D, Int>> {
        let Some((name, state)) = path.state_of(Masked::NAME) else { return param };
        let Some(change) = self.0.get(&name) else { return param };
        let device = param.lazy_device();
        let value = match state {
            "keep" => mask_bytes(change.keep.clone(), &device),
            "row_order" => ids(change.row_order.clone(), &device),
            _ => return param,
        };
        let (id, _, mapper) = param.consume();
        Param::from_mapped_value(id, value, mapper)
    }
}

/// Mask of a weight as tensors.
pub(crate) struct MaskTensors {
    /// One byte for each weight, in the order the layer stores them, flat.
    pub(crate) keep: Tensor<1, Int>,
    /// Row at every position.
    pub(crate) row_order: Tensor<1, Int>,
}

/// Returns the masks of all weights, by path.
pub(crate) fn mask_tensors<M: Module>(module: &M) -> BTreeMap<String, MaskTensors> {
    let mut masks = CollectMasks { keep: None, found: BTreeMap::new() };
    visit_params(module, &mut masks);
    masks.found
}

struct CollectMasks {
    keep: Option<Tensor<1, Int>>,
    found: BTreeMap<String, MaskTensors>,
}

impl VisitParams for CollectMasks {
    fn int<const D: usize>(&mut self, path: &Path, param: &Param<Tensor<D, Int>>) {
        let Some((name, state)) = path.state_of(Masked::NAME) else { return };
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

/// Reads the gradients of weights to the host, by path. Weights that the loss does not depend on are left out.
pub(crate) fn gather_gradients<M: Module>(
    module: &M,
    names: &[&str],
    grads: &GradientsParams,
) -> BTreeMap<String, Vec<f32>> {
    let mut gather = GatherGradients { names, grads, found: BTreeMap::new() };
    visit_params(module, &mut gather);
    gather.found
}

struct GatherGradients<'a> {
    names: &'a [&'a str],
    grads: &'a GradientsParams,
    found: BTreeMap<String, Vec<f32>>,
}

impl VisitParams for GatherGradients<'_> {
    fn float<const D: usize>(&mut self, path: &Path, param: &Param<Tensor<D>>) {
        let name = path.name();
        if self.names.contains(&name.as_str())
            && let Some(gradient) = self.grads.get::<D>(param.id)
        {
            let data = gradient.into_data().convert::<f32>();
            self.found.insert(name, data.try_into_vec().unwrap_or_default());
        }
    }
}
