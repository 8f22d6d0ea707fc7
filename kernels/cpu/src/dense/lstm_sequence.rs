use std::slice::{from_raw_parts, from_raw_parts_mut};

use gemm::Parallelism;
use rayon::prelude::*;

use crate::gemm::{View, product, product_on};
use crate::lstm_cell::{Backward, Forward};
use crate::parallel::Shared;
use crate::simd::{Isa, dispatch};

/// All steps of a layer, `[steps, batch, ...]`, with a dense recurrent weight.
///
/// Each thread runs some samples of the batch through all steps: samples do not depend on each other.
pub struct Sequence<'a> {
    /// Number of steps.
    pub steps: usize,
    /// Number of samples.
    pub batch: usize,
    /// Number of states.
    pub hidden: usize,
    /// Recurrent weight, `[hidden, 4 · hidden]`.
    pub weight: &'a [f32],
    /// Initial cell states, `[batch, hidden]`.
    pub cell: &'a [f32],
    /// Initial hidden states, `[batch, hidden]`.
    pub state: &'a [f32],
}

/// Gates and states computed by a forward pass.
pub struct Trace {
    /// Gate values, `[steps, batch, 4 · hidden]`.
    pub gates: Vec<f32>,
    /// All cell states, followed by all hidden states: `[2, steps, batch, hidden]`.
    pub states: Vec<f32>,
}

/// Gradients of the gate sums, the weight, and the initial states of a sequence.
pub struct Gradients {
    /// Gradient of the gate sums.
    pub sums: Vec<f32>,
    /// Recurrent weight gradient.
    pub weight: Vec<f32>,
    /// Gradient of the initial cell states.
    pub cell: Vec<f32>,
    /// Gradient of the initial hidden states.
    pub state: Vec<f32>,
}

/// Minimum number of samples per thread.
const SAMPLES: usize = 8;

impl Sequence<'_> {
    /// Runs all steps; `sums` holds the products with the input, `[steps, batch, 4 · hidden]`.
    pub fn forward(&self, isa: Isa, sums: &[f32]) -> Trace {
        let (plane, hidden) = (self.plane(), self.hidden);
        assert_eq!(sums.len(), 4 * plane);
        let mut gates = vec![0.0; 4 * plane];
        let mut states = vec![0.0; 2 * plane];
        let (to_gates, to_states) = (Shared::new(&mut gates), Shared::new(&mut states));
        let weight = View::rows(self.weight, 4 * hidden);
        self.samples().into_par_iter().for_each(|(first, rows)| {
            let mut recurrent = vec![0.0; 4 * rows * hidden];
            // SAFETY: the slices hold all steps of all samples, and only this thread writes these samples.
            unsafe {
                let cells = to_states.get();
                let hiddens = cells.add(plane);
                let mut cell = self.cell.as_ptr().add(first * hidden);
                let mut state = self.state.as_ptr().add(first * hidden);
                for step in 0..self.steps {
                    let at = (step * self.batch + first) * hidden;
                    let before = View::rows(from_raw_parts(state, rows * hidden), hidden);
                    product([rows, 4 * hidden, hidden], &mut recurrent, false, before, weight);
                    let forward = Forward {
                        rows,
                        hidden,
                        input: sums.as_ptr().add(4 * at),
                        recurrent: recurrent.as_ptr(),
                        before: cell,
                        cell: cells.add(at),
                        state: hiddens.add(at),
                        gates: Some(to_gates.get().add(4 * at)),
                    };
                    dispatch(isa, forward);
                    (cell, state) = (cells.add(at), hiddens.add(at));
                }
            }
        });
        Trace { gates, states }
    }

    /// Returns the gradients, given those of all states in `from`, `[2, steps, batch, hidden]`; `gates` and `states`
    /// are the trace of the forward pass.
    pub fn backward(&self, isa: Isa, gates: &[f32], states: &[f32], from: &[f32]) -> Gradients {
        let (plane, hidden) = (self.plane(), self.hidden);
        assert_eq!([gates.len(), states.len(), from.len()], [4 * plane, 2 * plane, 2 * plane]);
        let mut sums = vec![0.0; 4 * plane];
        let [mut cell, mut state] = [0, 1].map(|_| vec![0.0; self.batch * hidden]);
        let to_sums = Shared::new(&mut sums);
        // Transposed once: otherwise, `product` would pack the weight, whose outputs are not contiguous, at every step.
        let transposed = transposed(self.weight, hidden);
        let weight = View::rows(&transposed, hidden);
        let (to_cell, to_state) = (Shared::new(&mut cell), Shared::new(&mut state));
        self.samples().into_par_iter().for_each(|(first, rows)| {
            // SAFETY: as in `forward`.
            unsafe {
                let passed_cell = to_cell.get().add(first * hidden);
                let passed_state = to_state.get().add(first * hidden);
                for step in (0..self.steps).rev() {
                    let at = (step * self.batch + first) * hidden;
                    let before = match step {
                        0 => self.cell.as_ptr().add(first * hidden),
                        _ => states.as_ptr().add(at - self.batch * hidden),
                    };
                    let backward = Backward {
                        rows,
                        hidden,
                        gates: gates.as_ptr().add(4 * at),
                        before,
                        cell: states.as_ptr().add(at),
                        from_cell: from.as_ptr().add(at),
                        from_state: from.as_ptr().add(plane + at),
                        passed_state,
                        passed_cell,
                        sums: to_sums.get().add(4 * at),
                    };
                    dispatch(isa, backward);
                    let sums = from_raw_parts(to_sums.get().add(4 * at), 4 * rows * hidden);
                    let sums = View::rows(sums, 4 * hidden);
                    let state = from_raw_parts_mut(passed_state, rows * hidden);
                    product([rows, hidden, 4 * hidden], state, false, sums, weight);
                }
            }
        });
        let weight = self.weight_gradient(&states[plane..], &sums);
        Gradients { sums, weight, cell, state }
    }

    /// Returns the number of elements of one state over all steps.
    fn plane(&self) -> usize {
        let (state, hidden) = (self.batch * self.hidden, self.hidden);
        assert_eq!(self.weight.len(), 4 * hidden * hidden);
        assert_eq!([self.cell.len(), self.state.len()], [state; 2]);
        self.steps * state
    }

    /// Returns the first sample of each thread and the number of samples it takes.
    fn samples(&self) -> Vec<(usize, usize)> {
        let each = self.batch.div_ceil(rayon::current_num_threads()).max(SAMPLES);
        (0..self.batch).step_by(each).map(|from| (from, each.min(self.batch - from))).collect()
    }

    /// Returns the sum over all steps of each hidden state times the gradient of the gate sums that it contributed to.
    fn weight_gradient(&self, states: &[f32], sums: &[f32]) -> Vec<f32> {
        let (hidden, gates) = (self.hidden, 4 * self.hidden);
        let mut weight = vec![0.0; hidden * gates];
        if self.steps == 0 {
            return weight;
        }
        let after = (self.steps - 1) * self.batch;
        let first = 4 * self.batch * hidden;
        for (states, sums, samples, adds) in
            [(self.state, sums, self.batch, false), (states, &sums[first..], after, true)]
        {
            let (states, sums) = (View::rows(states, hidden), View::rows(sums, gates));
            let threads = Parallelism::Rayon(0);
            product_on(
                threads,
                [hidden, gates, samples],
                &mut weight,
                adds,
                states.transposed(),
                sums,
            );
        }
        weight
    }
}

/// Transposes `[hidden, 4 · hidden]` to `[4 · hidden, hidden]`.
fn transposed(weight: &[f32], hidden: usize) -> Vec<f32> {
    let gates = 4 * hidden;
    let mut transposed = vec![0.0; weight.len()];
    for (row, values) in transposed.chunks_exact_mut(hidden.max(1)).enumerate() {
        for (column, value) in values.iter_mut().enumerate() {
            *value = weight[column * gates + row];
        }
    }
    transposed
}
