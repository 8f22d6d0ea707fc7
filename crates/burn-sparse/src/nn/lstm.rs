use std::sync::Arc;

use burn::module::{Content, DisplaySettings, Module, ModuleDisplay};
use burn::nn::activation::Activation;
use burn::tensor::{Device, Tensor};
use burn_sparse_kernels::{lstm_cell, lstm_sequence};

use super::Linear;
use super::fused::{Fused, Fusion};

pub use burn::nn::{LstmConfig, LstmState};

/// A long short-term memory: burn-nn's `Lstm`, whose gates run as one packed matrix for the input and one for
/// the hidden state when their weights are [packed](super::Packed) alike (Balanced Sparsity's own case: Yao et
/// al., 2019, section 4.3).
///
/// Made from the same configuration, saved in the same record.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct Lstm {
    /// What is written to the cell state.
    pub input_gate: Gate,
    /// What stays of it; none where it is coupled to the input gate.
    pub forget_gate: Option<Gate>,
    /// What is read from it.
    pub output_gate: Gate,
    /// The candidate for what is written.
    pub cell_gate: Gate,
    /// Features of the hidden state.
    pub d_hidden: usize,
    /// Whether sequences are `[batch, steps, features]`, not `[steps, batch, features]`.
    pub batch_first: bool,
    /// Whether the last step is the first to be taken.
    pub reverse: bool,
    /// Cell states stay within this, up and down.
    pub clip: Option<f64>,
    /// Whether the forget gate is one minus the input gate.
    pub input_forget: bool,
    /// Of the three gates.
    pub gate_activation: Activation,
    /// Of the candidate.
    pub cell_activation: Activation,
    /// Of the cell state, before it is read.
    pub hidden_activation: Activation,
    #[module(skip)]
    from_input: Fusion,
    #[module(skip)]
    from_hidden: Fusion,
}

/// One gate.
#[derive(Module, Debug)]
pub struct Gate {
    /// From the input.
    pub input_transform: Linear,
    /// From the last hidden state.
    pub hidden_transform: Linear,
}

impl Gate {
    fn new(gate: burn::nn::GateController) -> Self {
        Self {
            input_transform: gate.input_transform.into(),
            hidden_transform: gate.hidden_transform.into(),
        }
    }
}

impl Lstm {
    /// Initializes the layer.
    pub fn new(config: &LstmConfig, device: &Device) -> Self {
        config.init(device).into()
    }

    /// Runs over sequences, from `state` or from zeros.
    ///
    /// # Shapes
    /// - input: `[batch, steps, d_input]`, or `[steps, batch, d_input]` without `batch_first`
    /// - output: the same with `d_hidden` features, and the last state, `[batch, d_hidden]` each
    ///
    /// # Panics
    /// When the last axis of `input` is not `d_input`, or the state is of another batch.
    pub fn forward(
        &self,
        input: Tensor<3>,
        state: Option<LstmState<2>>,
    ) -> (Tensor<3>, LstmState<2>) {
        let input = if self.batch_first { input.swap_dims(0, 1) } else { input };
        let [steps, batch, _] = input.dims();
        let state = state.unwrap_or_else(|| self.zeros(batch, &input.device()));
        let cell = self.cell();
        // One product for all steps. Its gradient would fill all of it again for every step, so where steps are
        // operators of their own and a gradient is wanted, every step has its own product.
        let (output, state) = match self.trained(&cell, &input, &state) {
            Some(done) => done,
            None if input.is_autodiff() => {
                let step =
                    |at, state| cell.step(input.clone().narrow(0, at, 1).squeeze_dim(0), state);
                self.loop_over(steps, state, step)
            }
            None => {
                let sums = cell.from_input.forward(input);
                let step =
                    |at, state| cell.advance(sums.clone().narrow(0, at, 1).squeeze_dim(0), state);
                self.loop_over(steps, state, step)
            }
        };
        let output = if self.batch_first { output.swap_dims(0, 1) } else { output };
        (output, state)
    }

    /// All steps in their order, outputs stacked to `[steps, batch, d_hidden]`.
    fn loop_over(
        &self,
        steps: usize,
        mut state: LstmState<2>,
        mut step: impl FnMut(usize, LstmState<2>) -> LstmState<2>,
    ) -> (Tensor<3>, LstmState<2>) {
        let mut outputs = Vec::with_capacity(steps);
        for at in 0..steps {
            state = step(if self.reverse { steps - 1 - at } else { at }, state);
            outputs.push(state.hidden.clone());
        }
        if self.reverse {
            outputs.reverse();
        }
        (Tensor::stack(outputs, 0), state)
    }

    /// All steps as one operator, where there is one: dense weights in training on the CPU.
    fn trained(
        &self,
        cell: &LstmCell<'_>,
        input: &Tensor<3>,
        state: &LstmState<2>,
    ) -> Option<(Tensor<3>, LstmState<2>)> {
        let steps = input.dims()[0];
        if !self.is_plain() || !input.is_autodiff() || steps == 0 {
            return None;
        }
        let (weight, bias) = cell.from_hidden.dense()?;
        let input = if self.reverse { input.clone().flip([0]) } else { input.clone() };
        let mut sums = cell.from_input.forward(input);
        if let Some(bias) = bias {
            sums = sums + bias.unsqueeze();
        }
        let begin = [state.cell.clone(), state.hidden.clone()];
        let [cells, hidden] = lstm_sequence(sums, weight, begin)?;
        let last = |states: &Tensor<3>| states.clone().narrow(0, steps - 1, 1).squeeze_dim(0);
        let state = LstmState::new(last(&cells), last(&hidden));
        let output = if self.reverse { hidden.flip([0]) } else { hidden };
        Some((output, state))
    }

    /// The layer for a loop of one's own, its weights read once.
    pub fn cell(&self) -> LstmCell<'_> {
        let gates = [
            Some(&self.input_gate),
            self.forget_gate.as_ref(),
            Some(&self.output_gate),
            Some(&self.cell_gate),
        ];
        let gates = gates.into_iter().flatten();
        LstmCell {
            lstm: self,
            from_input: self.from_input.of(gates.clone().map(|gate| &gate.input_transform)),
            from_hidden: self.from_hidden.of(gates.map(|gate| &gate.hidden_transform)),
        }
    }

    /// Whether it is the usual one, for which there are kernels.
    fn is_plain(&self) -> bool {
        let activations = (&self.gate_activation, &self.cell_activation, &self.hidden_activation);
        let usual = matches!(
            activations,
            (Activation::Sigmoid(_), Activation::Tanh(_), Activation::Tanh(_))
        );
        usual && self.clip.is_none() && self.forget_gate.is_some()
    }

    /// The state before any step.
    pub fn zeros(&self, batch: usize, device: &Device) -> LstmState<2> {
        LstmState::initial([batch, self.d_hidden], device)
    }
}

/// An [`Lstm`] with its weights read, see [`Lstm::cell`].
#[derive(Debug)]
pub struct LstmCell<'a> {
    lstm: &'a Lstm,
    from_input: Arc<Fused>,
    from_hidden: Arc<Fused>,
}

impl LstmCell<'_> {
    /// One step.
    ///
    /// # Shapes
    /// - input: `[batch, d_input]`
    /// - state: `[batch, d_hidden]` each
    ///
    /// # Panics
    /// As [`Lstm::forward`].
    pub fn step(&self, input: Tensor<2>, state: LstmState<2>) -> LstmState<2> {
        self.advance(self.from_input.forward(input), state)
    }

    /// A step whose product with the input is known.
    fn advance(&self, sums: Tensor<2>, state: LstmState<2>) -> LstmState<2> {
        let LstmState { cell, hidden } = state;
        let recurrent = self.from_hidden.forward(hidden);
        if self.lstm.is_plain() {
            let [cell, hidden] = lstm_cell(sums, recurrent, cell);
            return LstmState::new(cell, hidden);
        }
        self.general(sums + recurrent, cell)
    }

    /// Any activations, clipped or coupled.
    fn general(&self, sums: Tensor<2>, cell: Tensor<2>) -> LstmState<2> {
        let lstm = self.lstm;
        let mut gates = sums.split(lstm.d_hidden, 1).into_iter();
        let mut gate = || gates.next().expect("three gates or four, as the layer has");
        let input = lstm.gate_activation.forward(gate());
        let forget = match lstm.forget_gate {
            Some(_) => lstm.gate_activation.forward(gate()),
            None => input.clone().neg().add_scalar(1.0),
        };
        let output = lstm.gate_activation.forward(gate());
        let candidate = lstm.cell_activation.forward(gate());
        let cell = forget * cell + input * candidate;
        let cell = match lstm.clip {
            Some(clip) => cell.clamp(-clip, clip),
            None => cell,
        };
        let hidden = output * lstm.hidden_activation.forward(cell.clone());
        LstmState::new(cell, hidden)
    }
}

impl From<burn::nn::Lstm> for Lstm {
    fn from(lstm: burn::nn::Lstm) -> Self {
        Self {
            input_gate: Gate::new(lstm.input_gate),
            forget_gate: lstm.forget_gate.map(Gate::new),
            output_gate: Gate::new(lstm.output_gate),
            cell_gate: Gate::new(lstm.cell_gate),
            d_hidden: lstm.d_hidden,
            batch_first: lstm.batch_first,
            reverse: lstm.reverse,
            clip: lstm.clip,
            input_forget: lstm.input_forget,
            gate_activation: lstm.gate_activation,
            cell_activation: lstm.cell_activation,
            hidden_activation: lstm.hidden_activation,
            from_input: Fusion::default(),
            from_hidden: Fusion::default(),
        }
    }
}

impl ModuleDisplay for Lstm {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let transform = &self.input_gate.input_transform;
        content
            .add("d_input", &transform.dims()[0])
            .add("d_hidden", &self.d_hidden)
            .add("bias", &transform.bias.is_some())
            .optional()
    }
}
