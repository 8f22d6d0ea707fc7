use std::collections::BTreeSet;

use burn::module::Module;
use burn::tensor::Tensor;

use super::gram::Gram;
use super::sites::{Site, rows};
use super::{Blocks, CalibrateConfig, CalibrateError};
use crate::nn::record_inputs;

/// Position in the forward pass: the states that the next block gets.
pub(super) struct Walk<'a, M, B: Blocks<M>> {
    pub(super) blocks: &'a B,
    pub(super) config: &'a CalibrateConfig,
    pub(super) dense: &'a M,
    pub(super) pruned: M,
    /// States of the dense model, if the repair aims at its outputs.
    pub(super) dense_states: Option<Vec<B::State>>,
    pub(super) states: Vec<B::State>,
}

impl<M: Module, B: Blocks<M>> Walk<'_, M, B> {
    /// Sums over the inputs of a site, in one pass through its block.
    pub(super) fn record(&self, block: usize, site: &Site) -> Gram {
        let inputs = |model: &M, state: &B::State| {
            let wanted = BTreeSet::from([site.recorded]);
            record_inputs(Some(wanted), || self.blocks.run(model, block, state)).1
        };
        let mut gram: Option<Gram> = None;
        for (at, state) in self.states.iter().enumerate() {
            let pruned = inputs(&self.pruned, state);
            let dense = self.dense_states.as_ref().map(|states| inputs(self.dense, &states[at]));
            for (at, input) in pruned.iter().enumerate() {
                let dense = dense.as_ref().and_then(|dense| dense.get(at)).map(rows);
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

    /// Returns the features of states.
    pub(super) fn features(&self, states: &[B::State]) -> Result<Vec<Tensor<3>>, CalibrateError> {
        states.iter().map(|state| features(self.blocks, state)).collect()
    }

    /// Returns the outputs that a block aims at: those of the dense block, on the states of the pruned and of the dense model
    /// by the share of each.
    pub(super) fn targets(&self, block: usize) -> Result<Vec<Tensor<3>>, CalibrateError> {
        let dense =
            |state: &B::State| features(self.blocks, &self.blocks.run(self.dense, block, state));
        let share = self.config.toward_dense();
        let target = |(at, state): (usize, &B::State)| {
            let Some(states) = &self.dense_states else { return dense(state) };
            Ok(dense(&states[at])? * share + dense(state)? * (1.0 - share))
        };
        self.states.iter().enumerate().map(target).collect()
    }

    /// Runs a block that is done.
    pub(super) fn advance(&mut self, block: usize) {
        for state in &mut self.states {
            *state = self.blocks.run(&self.pruned, block, state);
        }
        for state in self.dense_states.iter_mut().flatten() {
            *state = self.blocks.run(self.dense, block, state);
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
