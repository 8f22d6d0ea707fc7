use std::sync::Arc;

use burn::config::Config;
use burn::module::{Content, DisplaySettings, Module, ModuleDisplay};
use burn::nn::activation::{Activation, ActivationConfig};
use burn::nn::{Initializer, LstmState};
use burn::tensor::{Device, Tensor};
use burn_sparse_kernels::{lstm_cell, lstm_sequence};

use super::fused::{Fused, Fusion};
use super::linear::Linear;

/// Configuration of an [`Lstm`] layer.
#[derive(Config, Debug)]
pub struct LstmConfig {
    /// Size of the input features.
    pub d_input: usize,
    /// Size of the hidden state.
    pub d_hidden: usize,
    /// `true` to add biases.
    pub bias: bool,
    /// Initializer of the parameters.
    #[config(default = "Initializer::XavierNormal{gain:1.0}")]
    pub initializer: Initializer,
    /// `true` for sequences `[batch, steps, features]`, `false` for `[steps, batch, features]`.
    #[config(default = true)]
    pub batch_first: bool,
    /// `true` to process sequences from the last step to the first.
    #[config(default = false)]
    pub reverse: bool,
    /// Largest magnitude of the cell state.
    pub clip: Option<f64>,
    /// `true` to couple the gates: the forget gate is one minus the input gate.
    #[config(default = false)]
    pub input_forget: bool,
    /// Activation of the gates.
    #[config(default = "ActivationConfig::Sigmoid")]
    pub gate_activation: ActivationConfig,
    /// Activation of the candidate cell state.
    #[config(default = "ActivationConfig::Tanh")]
    pub cell_activation: ActivationConfig,
    /// Activation of the cell state before the output gate.
    #[config(default = "ActivationConfig::Tanh")]
    pub hidden_activation: ActivationConfig,
}

impl LstmConfig {
    /// Initializes an [`Lstm`] layer.
    pub fn init(&self, device: &Device) -> Lstm {
        burn::nn::LstmConfig {
            d_input: self.d_input,
            d_hidden: self.d_hidden,
            bias: self.bias,
            initializer: self.initializer.clone(),
            batch_first: self.batch_first,
            reverse: self.reverse,
            clip: self.clip,
            input_forget: self.input_forget,
            gate_activation: self.gate_activation.clone(),
            cell_activation: self.cell_activation.clone(),
            hidden_activation: self.hidden_activation.clone(),
        }
        .init(device)
        .into()
    }
}

/// Long short-term memory: burn-nn's `Lstm`, whose gates run as one packed matrix for the input and one for the hidden
/// state if their weights are [packed](super::PackedParam) alike (Yao et al., 2019, section 4.3). Records are
/// interchangeable.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_sparse::nn::LstmConfig;
///
/// let device = Device::flex();
/// let lstm = LstmConfig::new(8, 16, true).init(&device);
/// let (hidden, last) = lstm.forward(Tensor::ones([2, 5, 8], &device), None);
/// assert_eq!((hidden.dims(), last.hidden.dims()), ([2, 5, 16], [2, 16]));
/// ```
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct Lstm {
    /// Input gate.
    pub input_gate: Gate,
    /// Forget gate; `None` if it is coupled to the input gate.
    pub forget_gate: Option<Gate>,
    /// Output gate.
    pub output_gate: Gate,
    /// Cell gate, which computes the candidate cell state.
    pub cell_gate: Gate,
    /// Size of the hidden state.
    pub d_hidden: usize,
    /// `true` if sequences are `[batch, steps, features]`, `false` if `[steps, batch, features]`.
    pub batch_first: bool,
    /// `true` if sequences are processed from the last step to the first.
    pub reverse: bool,
    /// Largest magnitude of the cell state.
    pub clip: Option<f64>,
    /// `true` if the forget gate is one minus the input gate.
    pub input_forget: bool,
    /// Activation of the gates.
    pub gate_activation: Activation,
    /// Activation of the candidate cell state.
    pub cell_activation: Activation,
    /// Activation of the cell state before the output gate.
    pub hidden_activation: Activation,
    #[module(skip)]
    from_input: Fusion,
    #[module(skip)]
    from_hidden: Fusion,
}

/// Gate of an [`Lstm`].
#[derive(Module, Debug)]
pub struct Gate {
    /// Projection of the input.
    pub input_transform: Linear,
    /// Projection of the previous hidden state.
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
    /// Processes sequences, starting from `state` or from zeros.
    ///
    /// # Shapes
    /// - input: `[batch, steps, d_input]`, or `[steps, batch, d_input]` without `batch_first`
    /// - output: the same with `d_hidden` features, and the last state, `[batch, d_hidden]` each
    ///
    /// # Panics
    /// Panics if shapes do not fit.
    pub fn forward(
        &self,
        input: Tensor<3>,
        state: Option<LstmState<2>>,
    ) -> (Tensor<3>, LstmState<2>) {
        let input = if self.batch_first { input.swap_dims(0, 1) } else { input };
        let [steps, batch, _] = input.dims();
        let state = state.unwrap_or_else(|| self.zeros(batch, &input.device()));
        if steps == 0 {
            // Burn's product of no rows reads memory that is not its own.
            let [_, d_hidden] = state.hidden.dims();
            let shape = if self.batch_first { [batch, 0, d_hidden] } else { [0, batch, d_hidden] };
            return (Tensor::zeros(shape, &input.device()), state);
        }
        let cell = self.cell();
        // One product serves all steps. With autodiff and one operator per step, its gradient would be filled again at every
        // step, so then every step has its own product.
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

    /// Runs all steps in order, and stacks the outputs to `[steps, batch, d_hidden]`.
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

    /// Runs all steps in one operator, which exists for dense weights in training on the CPU.
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

    /// Returns a cell for stepping through a sequence, with its weights read once.
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

    /// Returns `true` for the standard LSTM, which kernels implement.
    fn is_plain(&self) -> bool {
        let activations = (&self.gate_activation, &self.cell_activation, &self.hidden_activation);
        let usual = matches!(
            activations,
            (Activation::Sigmoid(_), Activation::Tanh(_), Activation::Tanh(_))
        );
        usual && self.clip.is_none() && self.forget_gate.is_some()
    }

    /// Returns the initial state.
    pub fn zeros(&self, batch: usize, device: &Device) -> LstmState<2> {
        LstmState::initial([batch, self.d_hidden], device)
    }
}

/// Cell of an [`Lstm`], returned by [`Lstm::cell`].
#[derive(Debug)]
pub struct LstmCell<'a> {
    lstm: &'a Lstm,
    from_input: Arc<Fused>,
    from_hidden: Arc<Fused>,
}

impl LstmCell<'_> {
    /// Takes one step.
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

    /// Takes a step, given the product of the input and its weights.
    fn advance(&self, sums: Tensor<2>, state: LstmState<2>) -> LstmState<2> {
        let LstmState { cell, hidden } = state;
        let recurrent = self.from_hidden.forward(hidden);
        if self.lstm.is_plain() {
            let [cell, hidden] = lstm_cell(sums, recurrent, cell);
            return LstmState::new(cell, hidden);
        }
        self.general(sums + recurrent, cell)
    }

    /// Computes a step with any activations, clipping, or coupled gates.
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
            // burn-nn's layer ignores the gate if it is coupled.
            forget_gate: lstm.forget_gate.filter(|_| !lstm.input_forget).map(Gate::new),
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
