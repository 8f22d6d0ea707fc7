use super::parallel::{Shared, for_each_part, team};
use super::simd::{Isa, Scalar, Simd, Work, dispatch};
use super::smooth::{sigmoid, tanh};

/// What one step of a cell reads: `[n, 4 · hidden]` sums of the input, forget, output and cell gates from the
/// input and from the last hidden state, and the last cell state `[n, hidden]`.
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
    let len = step.cell.len();
    let rows = len / step.hidden.max(1);
    assert_eq!(len, rows * step.hidden);
    assert_eq!([step.input.len(), step.recurrent.len()], [4 * len; 2]);
    let [mut cell, mut hidden] = [Vec::with_capacity(len), Vec::with_capacity(len)];
    let (to_cell, to_hidden) = (Shared::spare(&mut cell), Shared::spare(&mut hidden));
    let team = team(len * WORK, 11 * size_of::<f32>() * len);
    let per_part = rows.div_ceil(team.threads.max(1)).max(1);
    for_each_part(rows.div_ceil(per_part), team, |part| {
        let from = part * per_part;
        let rows = from..(from + per_part).min(rows);
        let (to_cell, to_hidden) = (to_cell.get(), to_hidden.get());
        dispatch(isa, Rows { step, rows, to_cell, to_hidden });
    });
    // SAFETY: every row was written, to its end.
    unsafe {
        cell.set_len(len);
        hidden.set_len(len);
    }
    [cell, hidden]
}

/// Some rows of a step.
struct Rows<'a> {
    step: Step<'a>,
    rows: std::ops::Range<usize>,
    to_cell: *mut f32,
    to_hidden: *mut f32,
}

impl Work for Rows<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let hidden = self.step.hidden;
        let whole = hidden / S::LANES * S::LANES;
        for row in self.rows.clone() {
            for at in (0..whole).step_by(S::LANES) {
                // SAFETY: `LANES` states of this row begin at `at`.
                unsafe { self.states::<S>(row, at) };
            }
            if whole < hidden {
                // SAFETY: the row's last states.
                unsafe { self.rest(row, whole) };
            }
        }
    }
}

impl Rows<'_> {
    /// The `LANES` states of a row from `at` on.
    #[inline(always)]
    unsafe fn states<S: Simd>(&self, row: usize, at: usize) {
        let (hidden, from) = (self.step.hidden, 4 * row * self.step.hidden + at);
        let state = row * hidden + at;
        // SAFETY: lengths were checked, and the caller vouches for the states from `at` on.
        unsafe {
            let (input, recurrent) =
                (self.step.input.as_ptr().add(from), self.step.recurrent.as_ptr().add(from));
            let (cell, hidden) = next::<S>(
                [0, 1, 2, 3].map(|gate| (input.add(gate * hidden), recurrent.add(gate * hidden))),
                self.step.cell.as_ptr().add(state),
            );
            S::store(self.to_cell.add(state), cell);
            S::store(self.to_hidden.add(state), hidden);
        }
    }

    /// The states of a row that fill no vector, through buffers of the narrowest set.
    unsafe fn rest(&self, row: usize, from: usize) {
        let hidden = self.step.hidden;
        for at in from..hidden {
            let state = row * hidden + at;
            let sums = [0, 1, 2, 3].map(|gate| {
                let at = (4 * row + gate) * hidden + at;
                ([self.step.input[at]; 4], [self.step.recurrent[at]; 4])
            });
            let cell = [self.step.cell[state]; 4];
            // SAFETY: four floats each; the state is one of this row.
            unsafe {
                let sums = [0, 1, 2, 3].map(|gate| (sums[gate].0.as_ptr(), sums[gate].1.as_ptr()));
                let (cell, hidden) = next::<Scalar>(sums, cell.as_ptr());
                *self.to_cell.add(state) = cell[0];
                *self.to_hidden.add(state) = hidden[0];
            }
        }
    }
}

/// `c' = σ(f) c + σ(i) tanh(g)`, `h' = σ(o) tanh(c')` for the sums of i, f, o, g in two parts each.
#[inline(always)]
unsafe fn next<S: Simd>(sums: [(*const f32, *const f32); 4], cell: *const f32) -> (S::F, S::F) {
    let [input, forget, output, candidate] = sums;
    // SAFETY: passed on.
    unsafe {
        let input = sigmoid::<S>(S::add(S::load(input.0), S::load(input.1)));
        let forget = sigmoid::<S>(S::add(S::load(forget.0), S::load(forget.1)));
        let output = sigmoid::<S>(S::add(S::load(output.0), S::load(output.1)));
        let candidate = tanh::<S>(S::add(S::load(candidate.0), S::load(candidate.1)));
        let kept = S::fma(forget, S::load(cell), S::zero());
        let cell = S::fma(input, candidate, kept);
        (cell, S::fma(output, tanh::<S>(cell), S::zero()))
    }
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
