use burn::backend::Flex;
use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;
use burn_sparse_cpu::{self as cpu, Isa, Step};

use crate::ops::{on_cpu, tensor};

/// Computes the state of an LSTM after a step: `c' = σ(f) c + σ(i) tanh(g)`, `h' = σ(o) tanh(c')` (Hochreiter and
/// Schmidhuber, 1997; Gers et al., 2000). The gates are the sum of the products `input` and `recurrent`, in the order of
/// burn-nn's `Lstm`: input, forget, output, cell.
///
/// On the CPU without autodiff this is one pass over memory; otherwise it takes a dozen of Burn's operators.
///
/// # Shapes
/// - `input`, `recurrent`: `[batch, 4 · hidden]`
/// - `cell`: `[batch, hidden]`
/// - output: `[c', h']`, `[batch, hidden]` each
///
/// # Panics
/// Panics if shapes do not fit.
pub fn lstm_cell(input: Tensor<2>, recurrent: Tensor<2>, cell: Tensor<2>) -> [Tensor<2>; 2] {
    let [batch, hidden] = cell.dims();
    for sums in [&input, &recurrent] {
        assert_eq!(sums.dims(), [batch, 4 * hidden], "lstm_cell: four gates of {hidden} states");
    }
    let primitives = [&input, &recurrent, &cell].map(on_cpu);
    if let [Some(input), Some(recurrent), Some(cell)] = &primitives
        && let (Some(input), Some(recurrent), Some(cell)) =
            (input.as_slice(), recurrent.as_slice(), cell.as_slice())
    {
        let step = Step { input, recurrent, cell, hidden };
        return cpu::lstm_cell(Isa::detect(), step)
            .map(|state| Tensor::from_primitive::<Flex>(tensor(state, [batch, hidden])));
    }
    let sums = input + recurrent;
    let gate = |number: usize| sums.clone().narrow(1, number * hidden, hidden);
    let kept = sigmoid(gate(1)) * cell;
    let cell = kept + sigmoid(gate(0)) * gate(3).tanh();
    let hidden = sigmoid(gate(2)) * cell.clone().tanh();
    [cell, hidden]
}
