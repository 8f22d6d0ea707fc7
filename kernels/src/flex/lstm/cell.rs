use super::super::parallel::{Shared, for_each_part, team};
use super::super::simd::{Isa, Simd, Work, dispatch};
use super::super::smooth::{sigmoid, tanh};

/// What one step reads: `[n, 4 · hidden]` sums of the gates from the input and from the last hidden state, and
/// the last cell state `[n, hidden]`.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) input: &'a [f32],
    pub(crate) recurrent: &'a [f32],
    pub(crate) cell: &'a [f32],
    pub(crate) hidden: usize,
}

/// Multiply-adds that five activations come to.
const WORK: usize = 80;

/// The new cell and hidden state, `[n, hidden]` each.
///
/// # Panics
/// When slices do not have these lengths.
pub(crate) fn lstm_cell(isa: Isa, step: Step<'_>) -> [Vec<f32>; 2] {
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
        // SAFETY: the slices and both new vectors hold all rows, of which this part alone has these.
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
    // SAFETY: every row was written, to its end.
    unsafe {
        cells.set_len(len);
        hiddens.set_len(len);
    }
    [cells, hiddens]
}

/// Some rows of a step; all pointers are to the first of them.
pub(super) struct Forward {
    pub(super) rows: usize,
    pub(super) hidden: usize,
    /// `[rows, 4 · hidden]`, as is `recurrent`, which is added to it.
    pub(super) input: *const f32,
    pub(super) recurrent: *const f32,
    /// The last cell state, `[rows, hidden]`.
    pub(super) before: *const f32,
    /// The new cell and hidden state.
    pub(super) cell: *mut f32,
    pub(super) state: *mut f32,
    /// Where the gates' values go, `[rows, 4 · hidden]`, if a gradient will need them.
    pub(super) gates: Option<*mut f32>,
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
                // SAFETY: whoever made this vouches for the rows; `count` states of the row begin at `at`.
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

/// The gradient of some rows of a step; all pointers are to the first of them.
pub(super) struct Backward {
    pub(super) rows: usize,
    pub(super) hidden: usize,
    /// The gates' values.
    pub(super) gates: *const f32,
    /// The cell state before the step and after it.
    pub(super) before: *const f32,
    pub(super) cell: *const f32,
    /// The gradients of this step's own outputs.
    pub(super) from_cell: *const f32,
    pub(super) from_state: *const f32,
    /// What the step after this one passes back: to the hidden state, and to the cell state, which becomes
    /// what this one passes back.
    pub(super) passed_state: *const f32,
    pub(super) passed_cell: *mut f32,
    /// The gradient of the sums, `[rows, 4 · hidden]`.
    pub(super) sums: *mut f32,
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
    // SAFETY: passed on.
    unsafe { S::fma(a, b, S::zero()) }
}

/// The slope of the sigmoid where its value is this: `σ (1 - σ)`.
#[inline(always)]
unsafe fn bell<S: Simd>(value: S::F) -> S::F {
    // SAFETY: passed on.
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
                        // A gate is off by so much, and with it what it lets through.
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
