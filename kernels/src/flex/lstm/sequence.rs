use gemm::{Parallelism, gemm};
use rayon::prelude::*;

use super::super::parallel::Shared;
use super::super::simd::{Isa, dispatch};
use super::cell::{Backward, Forward};

/// All steps of a layer, `[steps, batch, ...]`, with a dense recurrent weight.
///
/// Threads take samples of the batch each through all steps: samples never wait for each other.
pub(crate) struct Sequence<'a> {
    pub(crate) steps: usize,
    pub(crate) batch: usize,
    pub(crate) hidden: usize,
    /// `[hidden, 4 · hidden]`.
    pub(crate) weight: &'a [f32],
    /// The state to begin with, `[batch, hidden]` each.
    pub(crate) cell: &'a [f32],
    pub(crate) state: &'a [f32],
}

/// What a sequence leaves behind.
pub(crate) struct Trace {
    /// The gates' values, `[steps, batch, 4 · hidden]`.
    pub(crate) gates: Vec<f32>,
    /// All cell states, then all hidden states: `[2, steps, batch, hidden]`.
    pub(crate) states: Vec<f32>,
}

/// The gradients of what a sequence is made of.
pub(crate) struct Gradients {
    pub(crate) sums: Vec<f32>,
    pub(crate) weight: Vec<f32>,
    pub(crate) cell: Vec<f32>,
    pub(crate) state: Vec<f32>,
}

/// Samples that one thread takes at least.
const SAMPLES: usize = 8;

impl Sequence<'_> {
    /// Runs all steps; `sums` are the products with the input, `[steps, batch, 4 · hidden]`.
    pub(crate) fn forward(&self, isa: Isa, sums: &[f32]) -> Trace {
        let (plane, hidden) = (self.plane(), self.hidden);
        assert_eq!(sums.len(), 4 * plane);
        let mut gates = vec![0.0; 4 * plane];
        let mut states = vec![0.0; 2 * plane];
        let (to_gates, to_states) = (Shared::new(&mut gates), Shared::new(&mut states));
        self.samples().into_par_iter().for_each(|(first, rows)| {
            let mut recurrent = vec![0.0; 4 * rows * hidden];
            // SAFETY: the slices hold all steps of all samples, and this thread alone writes these samples.
            unsafe {
                let cells = to_states.get();
                let hiddens = cells.add(plane);
                let mut cell = self.cell.as_ptr().add(first * hidden);
                let mut state = self.state.as_ptr().add(first * hidden);
                for step in 0..self.steps {
                    let at = (step * self.batch + first) * hidden;
                    self.recur(rows, state, recurrent.as_mut_ptr());
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

    /// The gradients for those of all states, `[2, steps, batch, hidden]`; `gates` and `states` are the trace.
    pub(crate) fn backward(
        &self,
        isa: Isa,
        gates: &[f32],
        states: &[f32],
        from: &[f32],
    ) -> Gradients {
        let (plane, hidden) = (self.plane(), self.hidden);
        assert_eq!([gates.len(), states.len(), from.len()], [4 * plane, 2 * plane, 2 * plane]);
        let mut sums = vec![0.0; 4 * plane];
        let [mut cell, mut state] = [0, 1].map(|_| vec![0.0; self.batch * hidden]);
        let to_sums = Shared::new(&mut sums);
        // Products pack a weight whose outputs are not side by side, at every step.
        let transposed = transposed(self.weight, hidden);
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
                    self.recur_back(&transposed, rows, to_sums.get().add(4 * at), passed_state);
                }
            }
        });
        let weight = self.weight_gradient(&states[plane..], &sums);
        Gradients { sums, weight, cell, state }
    }

    /// Elements of one state at all steps.
    fn plane(&self) -> usize {
        let (state, hidden) = (self.batch * self.hidden, self.hidden);
        assert_eq!(self.weight.len(), 4 * hidden * hidden);
        assert_eq!([self.cell.len(), self.state.len()], [state; 2]);
        self.steps * state
    }

    /// The first sample of each thread, and how many it takes.
    fn samples(&self) -> Vec<(usize, usize)> {
        let each = self.batch.div_ceil(rayon::current_num_threads()).max(SAMPLES);
        (0..self.batch).step_by(each).map(|from| (from, each.min(self.batch - from))).collect()
    }

    /// `out [rows, 4 · hidden] = state [rows, hidden] · weight`.
    unsafe fn recur(&self, rows: usize, state: *const f32, out: *mut f32) {
        let (hidden, gates) = (self.hidden, 4 * self.hidden);
        let weight = (self.weight.as_ptr(), (1, gates));
        // SAFETY: the caller vouches for state and output, `plane` for the weight.
        unsafe { product((rows, gates, hidden), (out, gates), (state, (1, hidden)), weight) }
    }

    /// `out [rows, hidden] = sums [rows, 4 · hidden] · weightᵀ`.
    unsafe fn recur_back(&self, transposed: &[f32], rows: usize, sums: *const f32, out: *mut f32) {
        let (hidden, gates) = (self.hidden, 4 * self.hidden);
        let weight = (transposed.as_ptr(), (1, hidden));
        // SAFETY: as in `recur`.
        unsafe { product((rows, hidden, gates), (out, hidden), (sums, (1, gates)), weight) }
    }

    /// The sum over all steps of each hidden state times the gradient of the sums it went into.
    fn weight_gradient(&self, states: &[f32], sums: &[f32]) -> Vec<f32> {
        let (hidden, gates) = (self.hidden, 4 * self.hidden);
        let mut weight = vec![0.0; hidden * gates];
        let after = self.steps.saturating_sub(1) * self.batch;
        let first = 4 * self.batch * hidden;
        for (states, sums, samples, adds) in [
            (self.state, sums, self.batch, false),
            (states, &sums[first.min(sums.len())..], after, true),
        ] {
            assert!(states.len() >= samples * hidden && sums.len() >= samples * gates);
            // SAFETY: `samples` rows each, and a whole weight.
            unsafe {
                gemm(
                    hidden,
                    gates,
                    samples,
                    weight.as_mut_ptr(),
                    1,
                    gates as isize,
                    adds,
                    states.as_ptr(),
                    hidden as isize,
                    1,
                    sums.as_ptr(),
                    1,
                    gates as isize,
                    1.0,
                    1.0,
                    false,
                    false,
                    false,
                    Parallelism::Rayon(0),
                );
            }
        }
        weight
    }
}

/// `[hidden, 4 · hidden]` to `[4 · hidden, hidden]`.
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

/// `out = a · b` for sizes (rows, columns, reduction), on this thread. `out` has its row stride beside it, `a`
/// and `b` their column and row strides.
unsafe fn product(
    (rows, cols, reduction): (usize, usize, usize),
    (out, out_stride): (*mut f32, usize),
    (a, a_strides): (*const f32, (usize, usize)),
    (b, b_strides): (*const f32, (usize, usize)),
) {
    // SAFETY: passed on.
    unsafe {
        gemm(
            rows,
            cols,
            reduction,
            out,
            1,
            out_stride as isize,
            false,
            a,
            a_strides.0 as isize,
            a_strides.1 as isize,
            b,
            b_strides.0 as isize,
            b_strides.1 as isize,
            0.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
