use super::parallel::{Shared, for_each_part, team};
use super::polynomials::{sigmoid, tanh};
use super::simd::{Isa, Simd, Work, dispatch};

/// Inputs of one step: the gate sums `[n, 4 · hidden]` from the input and from the last hidden state, and the last cell
/// state `[n, hidden]`.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// Gate sums from the input.
    pub input: &'a [f32],
    /// Gate sums from the last hidden state.
    pub recurrent: &'a [f32],
    /// Last cell state.
    pub cell: &'a [f32],
    /// Number of states.
    pub hidden: usize,
}

/// Cost of five activations, in multiply-adds.
const WORK: usize = 80;

/// Computes the new cell state and hidden state, `[n, hidden]` each.
///
/// # Panics
/// Panics if the slices do not have these lengths.
pub fn lstm_cell(isa: Isa, step: Step<'_>) -> [Vec<f32>; 2] {
    let (len, hidden) = (step.cell.len(), step.hidden);
    let rows = len / hidden.max(1);
    assert_eq!(len, rows * hidden);
    assert_eq!([step.input.len(), step.recurrent.len()], [4 * len; 2]);
    let [mut cells, mut hiddens] = [Vec::with_capacity(len), Vec::with_capacity(len)];
    let (to_cell, to_hidden) = (Shared::spare(&mut cells), Shared::spare(&mut hiddens));
    let team = team(len * WORK, 11 * size_of::<f32>() * len);
    let per_part = rows.div_ceil(team.threads.max(1)).max(1);
    for_each_part(rows.div_ceil(per_part), team, |part| {
        let from = part * per_part;
        // SAFETY: the slices and both new vectors hold all rows, and these rows belong to this part alone.
        unsafe {
            let forward = Forward {
                rows: per_part.min(rows - from),
                hidden,
                input: step.input.as_ptr().add(4 * from * hidden),
                recurrent: step.recurrent.as_ptr().add(4 * from * hidden),
                before: step.cell.as_ptr().add(from * hidden),
                cell: to_cell.get().add(from * hidden),
                state: to_hidden.get().add(from * hidden),
                gates: None,
            };
            dispatch(isa, forward);
        }
    });
    // SAFETY: every row was fully written.
    unsafe {
        cells.set_len(len);
        hiddens.set_len(len);
    }
    [cells, hiddens]
}

/// Forward pass of some rows of a step; all pointers point to the first of them.
pub(crate) struct Forward {
    pub(crate) rows: usize,
    pub(crate) hidden: usize,
    /// Gate sums from the input, `[rows, 4 · hidden]`; `recurrent` has the same shape and is added to them.
    pub(crate) input: *const f32,
    pub(crate) recurrent: *const f32,
    /// Last cell state, `[rows, hidden]`.
    pub(crate) before: *const f32,
    /// New cell state and hidden state.
    pub(crate) cell: *mut f32,
    pub(crate) state: *mut f32,
    /// Destination of the gate values, `[rows, 4 · hidden]`, if a gradient will need them.
    pub(crate) gates: Option<*mut f32>,
}

impl Work for Forward {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let hidden = self.hidden;
        for row in 0..self.rows {
            for at in (0..hidden).step_by(S::LANES) {
                let count = S::LANES.min(hidden - at);
                let (sums, place) = (4 * row * hidden + at, row * hidden + at);
                // SAFETY: the creator of `self` guarantees the rows; `count` states of the row start at `at`.
                unsafe {
                    let mut gates = [S::zero(); 4];
                    for (gate, value) in gates.iter_mut().enumerate() {
                        let sum = sums + gate * hidden;
                        let sum = S::add(
                            S::load_first(self.input.add(sum), count),
                            S::load_first(self.recurrent.add(sum), count),
                        );
                        *value = if gate == 3 { tanh::<S>(sum) } else { sigmoid::<S>(sum) };
                    }
                    if let Some(to) = self.gates {
                        for (gate, &value) in gates.iter().enumerate() {
                            S::store_first(to.add(sums + gate * hidden), value, count);
                        }
                    }
                    let [input, forget, output, candidate] = gates;
                    let before = S::load_first(self.before.add(place), count);
                    let kept = S::fma(forget, before, S::zero());
                    let cell = S::fma(input, candidate, kept);
                    S::store_first(self.cell.add(place), cell, count);
                    let state = S::fma(output, tanh::<S>(cell), S::zero());
                    S::store_first(self.state.add(place), state, count);
                }
            }
        }
    }
}

/// Backward pass of some rows of a step; all pointers point to the first of them.
pub(crate) struct Backward {
    pub(crate) rows: usize,
    pub(crate) hidden: usize,
    /// Gate values.
    pub(crate) gates: *const f32,
    /// Cell states before and after the step.
    pub(crate) before: *const f32,
    pub(crate) cell: *const f32,
    /// Gradients of this step's own outputs.
    pub(crate) from_cell: *const f32,
    pub(crate) from_state: *const f32,
    /// Gradients of the hidden state and of the cell state passed back by the next step; `passed_cell` is replaced by
    /// the gradient that this step passes back.
    pub(crate) passed_state: *const f32,
    pub(crate) passed_cell: *mut f32,
    /// Gradient of the gate sums, `[rows, 4 · hidden]`.
    pub(crate) sums: *mut f32,
}

impl Work for Backward {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let hidden = self.hidden;
        for row in 0..self.rows {
            for at in (0..hidden).step_by(S::LANES) {
                let count = S::LANES.min(hidden - at);
                let (sums, place) = (4 * row * hidden + at, row * hidden + at);
                // SAFETY: as in `Forward`.
                unsafe {
                    let mut gates = [S::zero(); 4];
                    for (gate, value) in gates.iter_mut().enumerate() {
                        *value = S::load_first(self.gates.add(sums + gate * hidden), count);
                    }
                    let [input, forget, output, candidate] = gates;
                    let one = S::splat(1.0);
                    let through = tanh::<S>(S::load_first(self.cell.add(place), count));
                    let d_state = S::add(
                        S::load_first(self.from_state.add(place), count),
                        S::load_first(self.passed_state.add(place), count),
                    );
                    let d_cell = S::add(
                        S::load_first(self.from_cell.add(place), count),
                        S::load_first(self.passed_cell.add(place), count),
                    );
                    let slope = S::fma(product::<S>(through, S::splat(-1.0)), through, one);
                    let d_cell = S::fma(product::<S>(d_state, output), slope, d_cell);
                    let before = S::load_first(self.before.add(place), count);
                    let of_gates = [
                        product::<S>(product::<S>(d_cell, candidate), bell::<S>(input)),
                        product::<S>(product::<S>(d_cell, before), bell::<S>(forget)),
                        product::<S>(product::<S>(d_state, through), bell::<S>(output)),
                        product::<S>(
                            product::<S>(d_cell, input),
                            S::fma(product::<S>(candidate, S::splat(-1.0)), candidate, one),
                        ),
                    ];
                    for (gate, &value) in of_gates.iter().enumerate() {
                        S::store_first(self.sums.add(sums + gate * hidden), value, count);
                    }
                    let passed = product::<S>(d_cell, forget);
                    S::store_first(self.passed_cell.add(place), passed, count);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn product<S: Simd>(a: S::F, b: S::F) -> S::F {
    // SAFETY: guaranteed by the caller.
    unsafe { S::fma(a, b, S::zero()) }
}

/// Returns the derivative of the sigmoid, given its value `σ`: `σ (1 - σ)`.
#[inline(always)]
unsafe fn bell<S: Simd>(value: S::F) -> S::F {
    // SAFETY: guaranteed by the caller.
    unsafe { S::fma(product::<S>(value, S::splat(-1.0)), value, value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_that_of_the_formulas_in_float64_for_any_width_and_size_of_sums() {
        for (n, hidden) in [(1, 1), (1, 16), (3, 31), (2, 33), (7, 5), (40, 128)] {
            for scale in [0.1, 3.0, 40.0] {
                let noise = |seed: usize, len: usize| -> Vec<f32> {
                    (0..len)
                        .map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0)
                        .map(|unit| unit * scale)
                        .collect()
                };
                let (input, recurrent) = (noise(1, 4 * n * hidden), noise(2, 4 * n * hidden));
                let cell = noise(3, n * hidden);
                let step = Step { input: &input, recurrent: &recurrent, cell: &cell, hidden };
                for isa in Isa::available() {
                    let [new_cell, new_hidden] = lstm_cell(isa, step);
                    for state in 0..n * hidden {
                        let (row, at) = (state / hidden, state % hidden);
                        let sum = |gate: usize| {
                            let at = (4 * row + gate) * hidden + at;
                            f64::from(input[at]) + f64::from(recurrent[at])
                        };
                        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
                        let kept = sigmoid(sum(1)) * f64::from(cell[state]);
                        let c = kept + sigmoid(sum(0)) * sum(3).tanh();
                        let h = sigmoid(sum(2)) * c.tanh();
                        // The error of a gate is scaled by the value that it multiplies.
                        let allowed = 1e-6 * (1.0 + f64::from(cell[state].abs()));
                        let close = |a: f32, b: f64| (f64::from(a) - b).abs() < allowed;
                        assert!(close(new_cell[state], c), "{isa:?} {n}x{hidden} cell {c}");
                        assert!(close(new_hidden[state], h), "{isa:?} {n}x{hidden} hidden {h}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_number_stays_so() {
        let (input, zeros, cell) = ([f32::NAN; 4], [0.0; 4], [1.0]);
        let step = Step { input: &input, recurrent: &zeros, cell: &cell, hidden: 1 };
        let [cell, hidden] = lstm_cell(Isa::detect(), step);
        assert!(cell[0].is_nan() && hidden[0].is_nan());
    }
}
