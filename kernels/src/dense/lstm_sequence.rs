use burn::backend::Flex;
use burn::tensor::{DType, Tensor};
use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::NoCheckpointing;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};
use burn_flex::FlexTensor;
use burn_sparse_cpu::Isa;
use burn_sparse_cpu::dense::Sequence;

use crate::ops::tensor;

/// Runs all steps of a dense LSTM in training on the CPU, as one operator with its own gradient; returns `None` on other
/// devices. `sums` holds the products with the input, including all biases; `weight` is the dense recurrent weight. Gates
/// are ordered as in [`lstm_cell`](crate::lstm_cell).
///
/// The gradient of the weight is one product over all steps, whereas a loop of operators sums one product per step.
///
/// # Shapes
/// - `sums`: `[steps, batch, 4 · hidden]`
/// - `weight`: `[hidden, 4 · hidden]`
/// - `[cell, state]`: initial state, `[batch, hidden]` each
/// - output: all cell and all hidden states, `[steps, batch, hidden]` each
///
/// # Panics
/// Panics if shapes do not fit.
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
    let saved = Saved { shape: [steps, batch, hidden], weight, cell, state };
    let trace = saved.sequence()?.forward(Isa::detect(), sums.as_slice()?);
    let states = tensor(trace.states, [2, steps, batch, hidden]);
    let prepared = LstmSequence.prepare::<NoCheckpointing>(parents).compute_bound().stateful();
    let states = match prepared {
        OpsKind::Tracked(prepared) => {
            let gates = tensor(trace.gates, [steps, batch, 4 * hidden]);
            prepared.finish((saved, gates, states.clone()), states)
        }
        OpsKind::UnTracked(prepared) => prepared.finish(states),
    };
    let states = Tensor::<4>::from_primitive::<Differentiated>(states);
    Some([0, 1].map(|which| states.clone().narrow(0, which, 1).squeeze_dim(0)))
}

/// Weight and initial state, saved for the gradient.
#[derive(Debug, Clone)]
struct Saved {
    /// Number of steps, batch size, hidden size.
    shape: [usize; 3],
    weight: FlexTensor,
    cell: FlexTensor,
    state: FlexTensor,
}

impl Saved {
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
    type State = (Saved, FlexTensor, FlexTensor);

    fn backward(
        self,
        ops: Ops<Self::State, 4>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let (saved, gates, states) = ops.state;
        let from = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (Some(sequence), Some(gates), Some(states), Some(from)) =
            (saved.sequence(), gates.as_slice(), states.as_slice(), from.as_slice())
        else {
            unreachable!("the forward pass made them contiguous, of floats");
        };
        let found = sequence.backward(Isa::detect(), gates, states, from);
        let [steps, batch, hidden] = saved.shape;
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
