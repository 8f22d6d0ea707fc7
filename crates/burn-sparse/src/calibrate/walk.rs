use burn::module::Module;
use burn::tensor::Tensor;

use super::dense_model::DenseModel;
use super::gram::Gram;
use super::sites::{Site, rows};
use super::{Blocks, CalibrateConfig, CalibrateError};
use crate::nn::{LayerInput, record_first, record_inputs};

/// Position in the forward pass: the states that the next block gets.
pub(super) struct Walk<'a, M, B: Blocks<M>> {
    pub(super) blocks: &'a B,
    pub(super) config: &'a CalibrateConfig,
    pub(super) dense: &'a M,
    pub(super) pruned: M,
    /// Dense model at the same position, if the repair aims at its outputs.
    pub(super) beside: Option<DenseModel<'a, M, B>>,
    pub(super) states: Vec<B::State>,
}

impl<M: Module, B: Blocks<M>> Walk<'_, M, B> {
    /// Sums over the inputs of the first of `sites`, the remaining sites of a block, in one pass through the block.
    pub(super) fn record(&mut self, block: usize, sites: &[Site]) -> Gram {
        let dense = self.beside.as_mut().map(|beside| beside.inputs(block, sites));
        let mut gram: Option<Gram> = None;
        for (at, state) in self.states.iter().enumerate() {
            let pruned = self.inputs(block, &sites[0], state);
            let dense = dense.as_ref().and_then(|dense| dense.get(at));
            for (at, input) in pruned.iter().enumerate() {
                let dense = dense.and_then(|dense| dense.get(at)).map(rows);
                for (part, chunk) in rows(input).iter().enumerate() {
                    let dense = dense.as_ref().and_then(|parts| parts.get(part));
                    let gram =
                        gram.get_or_insert_with(|| Gram::new(input.features(), dense.is_some()));
                    gram.add(chunk, dense.map(Vec::as_slice));
                }
            }
        }
        gram.unwrap_or_else(|| Gram::new(0, false))
    }

    /// Returns the inputs of a site for one state in the pruned model.
    fn inputs(&self, block: usize, site: &Site, state: &B::State) -> Vec<LayerInput> {
        let run = || self.blocks.run(&self.pruned, block, state);
        record_first(site.recorded, site.reads, run).unwrap_or_else(|| {
            // This batch has more inputs than the first one.
            record_inputs([site.recorded].into(), run).1
        })
    }

    /// Returns the features of states.
    pub(super) fn features(&self, states: &[B::State]) -> Result<Vec<Tensor<3>>, CalibrateError> {
        states.iter().map(|state| features(self.blocks, state)).collect()
    }

    /// Returns the target outputs of a block: those of the dense block on the states of the pruned and of the dense model,
    /// weighted by their shares.
    pub(super) fn targets(&mut self, block: usize) -> Result<Vec<Tensor<3>>, CalibrateError> {
        let Self { blocks, dense, config, .. } = *self;
        let own = |state: &B::State| features(blocks, &blocks.run(dense, block, state));
        let share = config.toward_dense();
        let outputs = self.beside.as_mut().map(|beside| beside.outputs(block));
        let target = |(at, state): (usize, &B::State)| match outputs {
            None => own(state),
            Some(outputs) => {
                Ok(features(blocks, &outputs[at])? * share + own(state)? * (1.0 - share))
            }
        };
        self.states.iter().enumerate().map(target).collect()
    }

    /// Runs a finished block to get the next states.
    pub(super) fn advance(&mut self, block: usize) {
        for state in &mut self.states {
            *state = self.blocks.run(&self.pruned, block, state);
        }
        if let Some(beside) = &mut self.beside {
            beside.advance(block);
        }
    }
}

/// Returns the features of a state.
pub(super) fn features<M, B: Blocks<M>>(
    blocks: &B,
    state: &B::State,
) -> Result<Tensor<3>, CalibrateError> {
    blocks.features(state).ok_or(CalibrateError::NoFeatures)
}
