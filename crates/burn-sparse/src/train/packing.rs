//! Packed weights in training, while masks do not change: forward pass, gradients, and optimizer state of kept values only.

use std::cell::RefCell;
use std::collections::BTreeMap;

use burn::module::{Module, Param};
use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, Tensor};
use burn_sparse_kernels::{Layout, PackedTensors, trains_faster, trains_faster_conv2d};
use burn_sparse_pattern::Packed;
use burn_sparse_pattern::format::{FloatType, PackedEntry, View};

use super::TrainError;
use super::masked::AttachMasks;
use super::masks::PrunedWeight;
use super::optimizer_state::{Relaid, edited};
use super::state::{Change, WeightState, apply};
use crate::nn::PackInto;
use crate::params::{MapParams, Path, VisitParams, map_params, visit_params};
use crate::prune::{Plan, PlannedWeight};

/// Weights of a model that are packed, by path.
pub(super) type PackedWeights = BTreeMap<String, PackedWeight>;

/// Mask of a packed weight, and the positions of its values.
#[derive(Debug, Clone)]
pub(super) struct PackedWeight {
    keep: Vec<u8>,
    row_order: Vec<u32>,
    /// Shape of the packed values.
    values: [usize; 2],
    /// Shape in which the layer stores the dense weight.
    stored: Vec<usize>,
    /// Index of every packed value that is not padding, and its index in the dense weight.
    places: Vec<(u32, u32)>,
}

impl PackedWeight {
    fn new(tensors: &PackedTensors, view: &View, state: &WeightState) -> Self {
        let mut places = Vec::new();
        tensors
            .entries(|row, col, at| places.push((at as u32, view.stored_index(row, col) as u32)));
        let (keep, row_order) = (state.keep.clone(), state.row_order.clone());
        Self {
            keep,
            row_order,
            values: tensors.values().dims(),
            stored: view.stored_shape(),
            places,
        }
    }

    /// Returns the state of the weight with these packed values.
    fn state(&self, values: &[f32]) -> WeightState {
        let mut base = vec![0.0; self.keep.len()];
        for &(at, stored) in &self.places {
            base[stored as usize] = values[at as usize];
        }
        let (keep, row_order) = (self.keep.clone(), self.row_order.clone());
        WeightState { base, keep, row_order, replicated: false }
    }

    /// Reorders the elements of a tensor from the dense weight's layout to that of the packed values, or back.
    fn relaid(&self, bytes: &[u8], shape: &[usize], to: Form) -> Option<Relaid> {
        let elements: usize = shape.iter().product();
        let (dense, packed) = (self.keep.len(), self.values[0] * self.values[1]);
        let (from, count) = match to {
            Form::Packed => (dense, packed),
            Form::Masked => (packed, dense),
        };
        // A scalar, or another tensor without one element per weight.
        if elements != from {
            return None;
        }
        let size = bytes.len() / elements.max(1);
        let mut laid = vec![0; count * size];
        for &(at, stored) in &self.places {
            let (read, write) = match to {
                Form::Packed => (stored, at),
                Form::Masked => (at, stored),
            };
            let (read, write) = (read as usize * size, write as usize * size);
            laid[write..write + size].copy_from_slice(&bytes[read..read + size]);
        }
        let mut shape = self.stored.clone();
        if let Form::Packed = to {
            shape.fill(1);
            shape[..2].copy_from_slice(&self.values);
        }
        Some(Relaid { bytes: laid, shape })
    }
}

/// Form of a weight in training.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    /// Dense, under a mask.
    Masked,
    /// Kept values only.
    Packed,
}

/// Replaces the states of packed weights, which hold packed values, with the states of the dense weights.
pub(super) fn unpack_states(states: &mut BTreeMap<String, WeightState>, packed: &PackedWeights) {
    for (name, weight) in packed {
        if let Some(state) = states.get_mut(name) {
            *state = weight.state(&state.base);
        }
    }
}

/// Weights to pack because they train faster packed.
pub(super) struct Packing {
    pub(super) weights: PackedWeights,
    entries: BTreeMap<String, PackedEntry>,
    /// Values and masks of all weights.
    states: BTreeMap<String, WeightState>,
}

impl Packing {
    /// Packs those of all `weights` for which `stands` holds after `step`; `states` are their values and masks.
    pub(super) fn of(
        plan: &Plan,
        weights: &[PrunedWeight],
        states: BTreeMap<String, WeightState>,
        (step, stands): (usize, impl Fn(&PlannedWeight) -> bool),
    ) -> Result<Self, TrainError> {
        let (mut packed_weights, mut entries) = (PackedWeights::new(), BTreeMap::new());
        for (weight, planned) in weights.iter().zip(&plan.weights) {
            let (name, view, pattern) = (weight.name.clone(), weight.view.clone(), weight.pattern);
            let Some(state) = states.get(&name).filter(|state| !state.replicated) else { continue };
            if !has_packed_gradients(&name) || !stands(planned) {
                continue;
            }
            let matrix = view.to_matrix(&state.base);
            let packed = Packed::pack(&pattern, &matrix, &weight.mask, weight.row_order.as_ref());
            let packed = match packed {
                Ok(packed) => packed,
                // A ramp passes through counts that the pattern itself does not allow.
                Err(_) if step < planned.schedule.end => continue,
                Err(source) => return Err(TrainError::Pattern { name, step, source }),
            };
            let tensors = PackedTensors::from_packed(&packed, &Device::flex());
            let mut shape = tensors.shape();
            if shape.layout == Layout::Rows {
                // Gradients of single rows skip padding.
                shape.stored = weight.mask.kept();
            }
            let faster = match view {
                View::Linear { .. } => trains_faster(&shape),
                View::Conv { .. } => trains_faster_conv2d(&shape),
            };
            if !faster {
                continue;
            }
            packed_weights.insert(name.clone(), PackedWeight::new(&tensors, &view, state));
            let (layer, float) = (String::new(), FloatType::F32);
            entries.insert(name, PackedEntry { layer, view, pattern, packed, float, scales: None });
        }
        Ok(Self { weights: packed_weights, entries, states })
    }

    /// Returns the model with these weights packed, and the others under masks.
    pub(super) fn apply<M: Module>(self, model: M, plan: &Plan) -> M {
        let Self { weights, entries, states } = self;
        let mut constants = Constants::default();
        visit_params(&model, &mut constants);
        let masked = |weight: &&PlannedWeight| !weights.contains_key(&weight.name);
        let model = attach(model, plan.weights.iter().filter(masked), &states);
        let model = model.apply_reparameterization(PackInto::new(entries));
        map_params(model, &mut constants)
    }
}

/// Returns `true` if packed kernels compute the gradients of such a layer. The recurrent product of an LSTM, which is one
/// operator over all steps, has gradients for a dense weight only.
fn has_packed_gradients(name: &str) -> bool {
    !name.ends_with("hidden_transform.weight")
}

/// Returns the model with all weights under masks; `states` are the values and masks of all.
pub(super) fn unpack<M: Module>(
    model: M,
    plan: &Plan,
    states: &BTreeMap<String, WeightState>,
) -> M {
    attach(model, plan.weights.iter(), states)
}

/// Converts the optimizer's state for packed weights to another form.
///
/// # Errors
/// Returns an error, as text, when the state cannot be read, or has neither one element nor one for each weight.
pub(super) fn relay_state<M: Module>(
    optimizer: &ModuleOptimizer,
    model: &M,
    packed: &PackedWeights,
    to: Form,
) -> Result<ModuleOptimizer, String> {
    // In the order of their names; that of the record varies.
    let unlike = RefCell::new(BTreeMap::new());
    let found = edited(optimizer, model, |name, bytes, shape| {
        let relaid = packed.get(name)?.relaid(bytes, shape, to);
        if relaid.is_none() && shape.iter().product::<usize>() != 1 {
            unlike.borrow_mut().insert(name.to_string(), shape.to_vec());
        }
        relaid
    });
    match unlike.into_inner().pop_first() {
        Some((name, shape)) => Err(format!(
            "a tensor of {name} is {shape:?}, not an element for each weight, which cannot be packed: train under masks"
        )),
        None => found.map_err(|error| error.to_string()),
    }
}

/// Makes all weights dense, and attaches the masks of `weights`.
fn attach<'a, M: Module>(
    model: M,
    weights: impl Iterator<Item = &'a PlannedWeight>,
    states: &BTreeMap<String, WeightState>,
) -> M {
    let weights: Vec<PlannedWeight> = weights.cloned().collect();
    let changes = weights.iter().filter_map(|weight| {
        let WeightState { keep, row_order, .. } = states.get(&weight.name)?.clone();
        Some((weight.name.clone(), Change { keep, row_order, surviving: None }))
    });
    let changes = changes.collect();
    let model = model.materialize().apply_reparameterization(AttachMasks { weights: &weights });
    apply(model, &changes)
}

/// Parameters that are not trained, by path: packing makes new leaves, which would be trained.
#[derive(Default)]
struct Constants(Vec<String>);

impl VisitParams for Constants {
    fn float<const D: usize>(&mut self, path: &Path, param: &Param<Tensor<D>>) {
        let base = param.base();
        if base.is_autodiff() && !base.is_require_grad() {
            self.0.push(path.name());
        }
    }
}

impl MapParams for Constants {
    fn float<const D: usize>(&mut self, path: &Path, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.0.contains(&path.name()) { param.set_require_grad(false) } else { param }
    }
}
