//! Inputs that planned weights read, in the order of the forward pass.

use std::collections::{BTreeMap, BTreeSet};

use burn::module::{Module, Param, ParamId};
use burn::tensor::Tensor;

use super::unfold::unfold;
use super::{Blocks, CalibrateError};
use crate::nn::{InputValues, LayerInput, record_inputs};
use crate::params::{Path, VisitParams, parameters, visit_params};
use crate::prune::Plan;

/// Planned weights that read the same inputs, and so share their Gram matrix.
pub(super) struct Site {
    /// Indices in the plan.
    pub(super) weights: Vec<usize>,
    /// Weight for which the inputs are recorded.
    pub(super) recorded: ParamId,
    /// `true` if the layers have a bias.
    pub(super) bias: bool,
    /// Number of inputs per batch: more than one if a layer runs several times.
    pub(super) reads: usize,
    /// Number of elements of the first batch's inputs.
    pub(super) size: usize,
}

/// Finds the sites of every block, by running one batch.
///
/// # Errors
/// Returns an error that names a planned weight whose inputs cannot be recorded, or that two blocks use.
pub(super) fn sites<M: Module, B: Blocks<M>>(
    plan: &Plan,
    model: &M,
    blocks: &B,
    batch: &B::State,
) -> Result<Vec<Vec<Site>>, CalibrateError> {
    let parameters = parameters(model);
    let id_of = |name: &str| parameters.iter().find(|p| p.name == name).map(|p| p.id);
    let mut planned = BTreeMap::new();
    for (index, weight) in plan.weights.iter().enumerate() {
        let not_recorded = || CalibrateError::NotRecorded { name: weight.name.clone() };
        let id = id_of(&weight.name).ok_or_else(not_recorded)?;
        if let Some(other) = parameters.iter().find(|p| p.id == id && p.name != weight.name) {
            let (name, second) = (weight.name.clone(), other.name.clone());
            return Err(CalibrateError::Shared { name, second });
        }
        planned.insert(id, index);
    }
    let has_bias = |index: usize| id_of(&bias_of(&plan.weights[index].name)).is_some();
    let mut block_of: BTreeMap<usize, usize> = BTreeMap::new();
    let mut found = Vec::new();
    let mut state = batch.clone();
    for block in 0..blocks.len(model) {
        let wanted: BTreeSet<ParamId> = planned.keys().copied().collect();
        let (next, inputs) = record_inputs(wanted, || blocks.run(model, block, &state));
        state = next;
        let mut reads: BTreeMap<ParamId, Vec<usize>> = BTreeMap::new();
        for (at, input) in inputs.iter().enumerate() {
            for id in &input.weights {
                reads.entry(*id).or_default().push(at);
            }
        }
        // In the order of the first read; weights that always read together are one site.
        let mut together: BTreeMap<(Vec<usize>, bool), Vec<ParamId>> = BTreeMap::new();
        for (id, at) in reads {
            let index = planned[&id];
            if let Some(first) = block_of.insert(index, block) {
                let name = plan.weights[index].name.clone();
                return Err(CalibrateError::TwoBlocks { name, first, second: block });
            }
            together.entry((at, has_bias(index))).or_default().push(id);
        }
        let site = |((at, bias), ids): ((Vec<usize>, bool), Vec<ParamId>)| {
            let mut weights: Vec<usize> = ids.iter().map(|id| planned[id]).collect();
            weights.sort_unstable();
            let size = at.iter().map(|&at| inputs[at].elements()).sum();
            Site { weights, recorded: ids[0], bias, reads: at.len(), size }
        };
        found.push(together.into_iter().map(site).collect());
    }
    match (0..plan.weights.len()).find(|index| !block_of.contains_key(index)) {
        Some(index) => Err(CalibrateError::NotRecorded { name: plan.weights[index].name.clone() }),
        None => Ok(found),
    }
}

/// Returns the name of the bias that belongs to a weight.
pub(super) fn bias_of(weight: &str) -> String {
    match weight.rsplit_once('.') {
        Some((layer, _)) => format!("{layer}.bias"),
        None => "bias".into(),
    }
}

/// Returns an input in parts, as rows with a value for each column of the weight's matrix.
pub(super) fn rows(input: &LayerInput) -> Vec<Vec<f32>> {
    match &input.values {
        InputValues::Tokens(tokens) => vec![floats(tokens.clone().into_data())],
        InputValues::Pictures(pictures, window) => {
            let [batch, channels, height, width] = pictures.dims();
            let values = floats(pictures.clone().into_data());
            let size = channels * height * width;
            let picture = |at: usize| {
                unfold(&values[at * size..(at + 1) * size], [channels, height, width], *window)
            };
            (0..batch).map(picture).collect()
        }
    }
}

pub(super) fn floats(data: burn::tensor::TensorData) -> Vec<f32> {
    // After the conversion, the data has the requested type, `f32`.
    data.convert::<f32>().try_into_vec().unwrap_or_default()
}

/// Reads parameters to the host, by path.
pub(super) fn read<M: Module>(model: &M, names: &BTreeSet<String>) -> BTreeMap<String, Vec<f32>> {
    let mut read = Read { names, found: BTreeMap::new() };
    visit_params(model, &mut read);
    read.found
}

struct Read<'a> {
    names: &'a BTreeSet<String>,
    found: BTreeMap<String, Vec<f32>>,
}

impl VisitParams for Read<'_> {
    fn float<const D: usize>(&mut self, path: &Path, param: &Param<Tensor<D>>) {
        let name = path.name();
        if self.names.contains(&name) {
            self.found.insert(name, floats(param.val().into_data()));
        }
    }
}
