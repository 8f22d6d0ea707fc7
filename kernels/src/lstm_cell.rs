use burn::backend::Flex;
use burn::tensor::activation::sigmoid;
use burn::tensor::{Bytes, DType, Shape, Tensor};
use burn_flex::FlexTensor;

use crate::flex::{self, Isa, Step};

/// What follows the two products of an LSTM's step: `c' = σ(f) c + σ(i) tanh(g)`, `h' = σ(o) tanh(c')`
/// (Hochreiter and Schmidhuber, 1997; Gers et al., 2000). `input` and `recurrent` are the products, which are
/// added up; their gates stand in the order of burn-nn's `Lstm`: input, forget, output, cell.
///
/// One pass over memory on the CPU where no gradient is wanted; a dozen of Burn's operators anywhere else.
///
/// # Shapes
/// - `input`, `recurrent`: `[batch, 4 · hidden]`
/// - `cell`: `[batch, hidden]`
/// - output: `[c', h']`, `[batch, hidden]` each
///
/// # Panics
/// When shapes do not fit.
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
        return flex::lstm_cell(Isa::detect(), step).map(|state| {
            let layout = burn_flex::Layout::contiguous(Shape::new([batch, hidden]));
            let state = FlexTensor::new(Bytes::from_elems(state), layout, DType::F32);
            Tensor::from_primitive::<Flex>(state)
        });
    }
    let sums = input + recurrent;
    let gate = |number: usize| sums.clone().narrow(1, number * hidden, hidden);
    let kept = sigmoid(gate(1)) * cell;
    let cell = kept + sigmoid(gate(0)) * gate(3).tanh();
    let hidden = sigmoid(gate(2)) * cell.clone().tanh();
    [cell, hidden]
}

/// The tensor in the CPU's memory, where it is there and no gradient is wanted.
fn on_cpu(tensor: &Tensor<2>) -> Option<FlexTensor> {
    if tensor.is_autodiff() || tensor.dtype() != DType::F32 {
        return None;
    }
    let tensor = tensor.clone().try_into_primitive::<Flex>().ok()?;
    debug_assert_eq!(tensor.dtype(), DType::F32);
    Some(tensor.to_contiguous())
}
