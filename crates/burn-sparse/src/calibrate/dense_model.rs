use std::collections::BTreeSet;

use burn::module::{Module, ParamId};

use super::Blocks;
use super::sites::Site;
use crate::nn::{LayerInput, record_inputs};

/// Largest number of input elements that are held at once: 1 GiB of `f32`.
const LIMIT: usize = 1 << 28;

/// The dense model at one position of the forward pass. A block runs once for the inputs of all its layers, and more often only
/// if they are too large to be held at once.
pub(super) struct DenseModel<'a, M, B: Blocks<M>> {
    blocks: &'a B,
    model: &'a M,
    /// Inputs of the block.
    states: Vec<B::State>,
    /// Outputs of the block, once it has run.
    outputs: Option<Vec<B::State>>,
    /// Weights whose inputs are held.
    held: BTreeSet<ParamId>,
    /// Inputs of each state.
    inputs: Vec<Vec<LayerInput>>,
    /// Largest number of input elements that are held at once.
    limit: usize,
}

impl<'a, M: Module, B: Blocks<M>> DenseModel<'a, M, B> {
    /// Starts before the first block.
    pub(super) fn new(blocks: &'a B, model: &'a M, states: Vec<B::State>) -> Self {
        let (held, inputs) = (BTreeSet::new(), Vec::new());
        Self { blocks, model, states, outputs: None, held, inputs, limit: LIMIT }
    }

    /// Returns the inputs of the first of a block's `sites`, for each state. Holds those of the following sites, as many
    /// as fit, for the next calls.
    pub(super) fn inputs(&mut self, block: usize, sites: &[Site]) -> Vec<Vec<LayerInput>> {
        let wanted = sites[0].recorded;
        if !self.held.contains(&wanted) {
            let mut size = 0;
            let fits = |site: &&Site| {
                size += site.size * self.states.len();
                size <= self.limit || site.recorded == wanted
            };
            self.held = sites.iter().take_while(fits).map(|site| site.recorded).collect();
            let run = |state| {
                let held = self.held.clone();
                record_inputs(held, || self.blocks.run(self.model, block, state))
            };
            let (outputs, inputs) = self.states.iter().map(run).unzip();
            (self.outputs, self.inputs) = (Some(outputs), inputs);
        }
        let read = |input: &&LayerInput| input.weights.contains(&wanted);
        self.inputs.iter().map(|inputs| inputs.iter().filter(read).cloned().collect()).collect()
    }

    /// Returns the output of a block for each state.
    pub(super) fn outputs(&mut self, block: usize) -> &[B::State] {
        let run = |state| self.blocks.run(self.model, block, state);
        self.outputs.get_or_insert_with(|| self.states.iter().map(run).collect())
    }

    /// Advances past a block.
    pub(super) fn advance(&mut self, block: usize) {
        self.outputs(block);
        self.states = self.outputs.take().unwrap_or_default();
        self.held.clear();
        self.inputs.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use burn::module::Module;
    use burn::nn::LinearConfig;
    use burn::tensor::{Device, Distribution, Tensor};

    use super::super::Whole;
    use super::super::sites::sites;
    use super::*;
    use crate::nn::{InputValues, Linear};
    use crate::pattern::Pattern;
    use crate::prune::{Horizon, Plan, PruneConfig};

    #[derive(Module, Debug)]
    struct Chain {
        layers: Vec<Linear>,
    }

    #[test]
    fn a_block_runs_once_for_all_sites_or_once_for_each_if_their_inputs_are_too_large() {
        let device = Device::flex();
        let layer = |_| Linear::from(LinearConfig::new(8, 8).init(&device));
        let model = Chain { layers: (0..3).map(layer).collect() };
        let runs = Cell::new(0);
        let blocks = Whole::new(|model: &Chain, x: &Tensor<2>| {
            runs.set(runs.get() + 1);
            model.layers.iter().fold(x.clone(), |x, layer| layer.forward(x));
        });
        let rule = PruneConfig::new(Pattern::balanced(8), 0.5);
        let plan = Plan::new(&rule, &model, Horizon::steps(0)).unwrap();
        let random = |_| Tensor::<2>::random([5, 8], Distribution::Default, &device);
        let states: Vec<Tensor<2>> = (0..2).map(random).collect();
        let sites = sites(&plan, &model, &blocks, &states[0]).unwrap().remove(0);
        assert_eq!(sites.len(), 3);
        let mut found = Vec::new();
        // Two states of 5 x 8 elements a site: nothing, two sites, and everything fits.
        for (limit, passes) in [(0, 3), (160, 2), (LIMIT, 1)] {
            runs.set(0);
            let mut dense = DenseModel::new(&blocks, &model, states.clone());
            dense.limit = limit;
            let inputs: Vec<Vec<f32>> = (0..3)
                .flat_map(|at| dense.inputs(0, &sites[at..]))
                .map(|of_state| {
                    let [LayerInput { values: InputValues::Tokens(tokens), .. }] = &of_state[..]
                    else {
                        panic!("one input of tokens")
                    };
                    tokens.clone().into_data().try_into_vec().unwrap()
                })
                .collect();
            assert_eq!(inputs.len(), 6);
            assert_eq!(runs.get(), passes * states.len(), "limit {limit}");
            found.push(inputs);
        }
        assert!(found[0] == found[1] && found[1] == found[2]);
    }
}
