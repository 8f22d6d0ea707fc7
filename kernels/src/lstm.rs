use burn::backend::Flex;
use burn::tensor::activation::sigmoid;
use burn::tensor::{DType, Tensor};
use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::NoCheckpointing;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};
use burn_flex::FlexTensor;

use crate::flex::Isa;
use crate::flex::lstm::{self, Sequence, Step};
use crate::flex::tensor;

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
        return lstm::lstm_cell(Isa::detect(), step)
            .map(|state| Tensor::from_primitive::<Flex>(tensor(state, [batch, hidden])));
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

/// All steps of an LSTM that is trained on the CPU, as one operator with a gradient of its own; nothing
/// elsewhere. `sums` are the products with the input, with all biases, and `weight` is the dense recurrent one;
/// gates as in [`lstm_cell`].
///
/// The gradient of the weight is one product over all steps, where a loop of operators adds up one for each.
///
/// # Shapes
/// - `sums`: `[steps, batch, 4 · hidden]`
/// - `weight`: `[hidden, 4 · hidden]`
/// - `[cell, state]`: what to begin with, `[batch, hidden]` each
/// - output: all cell and all hidden states, `[steps, batch, hidden]` each
///
/// # Panics
/// When shapes do not fit.
pub fn lstm_sequence(
    sums: Tensor<3>,
    weight: Tensor<2>,
    [cell, state]: [Tensor<2>; 2],
) -> Option<[Tensor<3>; 2]> {
    type Differentiated = Autodiff<Flex>;
    let [steps, batch, gates] = sums.dims();
    let hidden = gates / 4;
    assert_eq!(weight.dims(), [hidden, 4 * hidden], "lstm_sequence: four gates of {hidden} states");
    assert_eq!([cell.dims(), state.dims()], [[batch, hidden]; 2], "lstm_sequence: states");
    if [sums.dtype(), weight.dtype(), cell.dtype(), state.dtype()] != [DType::F32; 4] {
        return None;
    }
    let sums = sums.try_into_primitive::<Differentiated>().ok()?;
    let weight = weight.try_into_primitive::<Differentiated>().ok()?;
    let cell = cell.try_into_primitive::<Differentiated>().ok()?;
    let state = state.try_into_primitive::<Differentiated>().ok()?;
    let parents = [sums.node(), weight.node(), cell.node(), state.node()];
    let [sums, weight, cell, state] =
        [sums, weight, cell, state].map(|tensor| tensor.into_primitive().to_contiguous());
    let kept = Kept { shape: [steps, batch, hidden], weight, cell, state };
    let trace = kept.sequence()?.forward(Isa::detect(), sums.as_slice()?);
    let states = tensor(trace.states, [2, steps, batch, hidden]);
    let prepared = LstmSequence.prepare::<NoCheckpointing>(parents).compute_bound().stateful();
    let states = match prepared {
        OpsKind::Tracked(prepared) => {
            let gates = tensor(trace.gates, [steps, batch, 4 * hidden]);
            prepared.finish((kept, gates, states.clone()), states)
        }
        OpsKind::UnTracked(prepared) => prepared.finish(states),
    };
    let states = Tensor::<4>::from_primitive::<Differentiated>(states);
    Some([0, 1].map(|which| states.clone().narrow(0, which, 1).squeeze_dim(0)))
}

/// What a sequence begins with, kept for its gradient.
#[derive(Debug, Clone)]
struct Kept {
    /// Steps, batch, hidden.
    shape: [usize; 3],
    weight: FlexTensor,
    cell: FlexTensor,
    state: FlexTensor,
}

impl Kept {
    fn sequence(&self) -> Option<Sequence<'_>> {
        let [steps, batch, hidden] = self.shape;
        let (weight, cell, state) =
            (self.weight.as_slice()?, self.cell.as_slice()?, self.state.as_slice()?);
        Some(Sequence { steps, batch, hidden, weight, cell, state })
    }
}

#[derive(Debug)]
struct LstmSequence;

impl Backward<Flex, 4> for LstmSequence {
    type State = (Kept, FlexTensor, FlexTensor);

    fn backward(
        self,
        ops: Ops<Self::State, 4>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let (kept, gates, states) = ops.state;
        let from = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (Some(sequence), Some(gates), Some(states), Some(from)) =
            (kept.sequence(), gates.as_slice(), states.as_slice(), from.as_slice())
        else {
            unreachable!("the forward pass made them contiguous, of floats");
        };
        let found = sequence.backward(Isa::detect(), gates, states, from);
        let [steps, batch, hidden] = kept.shape;
        let of_parents = [
            tensor(found.sums, [steps, batch, 4 * hidden]),
            tensor(found.weight, [hidden, 4 * hidden]),
            tensor(found.cell, [batch, hidden]),
            tensor(found.state, [batch, hidden]),
        ];
        for (parent, grad) in ops.parents.into_iter().zip(of_parents) {
            if let Some(parent) = parent {
                grads.register::<Flex>(parent.id, grad);
            }
        }
    }
}
