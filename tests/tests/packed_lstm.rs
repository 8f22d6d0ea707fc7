//! `burn_sparse::nn::Lstm` matches burn-nn's layer if nothing is packed, and computes the same
//! function if it is packed.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::nn::activation::ActivationConfig;
use burn::tensor::{Device, Tensor};
use burn_sparse::nn::{Lstm, LstmConfig, LstmState, record_dispatch};
use burn_sparse_tests::models::{one_shot, seeded, stock};
use burn_sparse_tests::tensors::{close, input};

fn state(batch: usize, hidden: usize, device: &Device) -> LstmState<2> {
    LstmState::new(input([batch, hidden], device), input([batch, hidden], device) * 0.5)
}

#[test]
fn with_burns_own_record_it_is_burns_own_lstm_in_every_setting() {
    let (inputs, hidden) = (7, 5);
    let plain = || LstmConfig::new(inputs, hidden, true);
    let settings = [
        ("plain", plain()),
        ("no bias", LstmConfig::new(inputs, hidden, false)),
        ("steps first", plain().with_batch_first(false)),
        ("reverse", plain().with_reverse(true)),
        ("clipped", plain().with_clip(Some(0.3))),
        ("coupled", plain().with_input_forget(true)),
        ("other activations", plain().with_gate_activation(ActivationConfig::Relu)),
    ];
    for (name, config) in settings {
        for device in [Device::flex(), Device::flex().autodiff()] {
            let stock =
                seeded(&device, 5, |device| stock::<_, burn::nn::LstmConfig>(&config).init(device));
            let record = stock.clone().into_record();
            let ours = config.init(&device);
            let ours = ours.try_load_record(record).unwrap();
            let x = input([3, 4, inputs], &device);
            for begin in [None, Some(if config.batch_first { 3 } else { 4 })] {
                let begin = begin.map(|batch| state(batch, hidden, &device));
                let (expected, last) = stock.forward(x.clone(), begin.clone());
                let (found, found_last) = ours.forward(x.clone(), begin);
                close(found, expected, name);
                close(found_last.cell, last.cell, name);
                close(found_last.hidden, last.hidden, name);
            }
        }
    }
}

#[test]
fn a_sequence_of_no_steps_gives_no_outputs_and_leaves_the_state() {
    for device in [Device::flex(), Device::flex().autodiff()] {
        for batch_first in [true, false] {
            let lstm = LstmConfig::new(7, 5, true).with_batch_first(batch_first).init(&device);
            let (begin, shapes) = (state(3, 5, &device), [[3, 0], [0, 3]]);
            let [first, second] = shapes[usize::from(!batch_first)];
            let x = Tensor::<3>::zeros([first, second, 7], &device);
            let (output, last) = lstm.forward(x, Some(begin.clone()));
            assert_eq!(output.dims(), [first, second, 5]);
            close(last.hidden, begin.hidden, "hidden");
        }
    }
}

#[derive(Module, Debug)]
struct Net {
    lstm: Lstm,
}

fn net(inputs: usize, hidden: usize, device: &Device) -> Net {
    seeded(device, 9, |device| Net { lstm: LstmConfig::new(inputs, hidden, true).init(device) })
}

#[test]
fn packed_gates_run_as_one_matrix_and_give_what_the_masked_ones_give() {
    let patterns = [
        "pattern = { kind = \"balanced\", block = 32 }",
        "pattern = { kind = \"balanced\", block = 25 }",
        "pattern = { kind = \"shfl-bw\", vector = 16 }",
        "pattern = { kind = \"vector-wise\", vector = 32 }",
        "pattern = { kind = \"block-wise\", block = 16 }",
        "pattern = { kind = \"unstructured\" }",
    ];
    for keys in patterns {
        // In the last case the rows of a gate do not fill whole groups or tiles, so the gates run separately.
        for (inputs, hidden) in [(64, 64), (33, 128), (70, 50)] {
            let device = Device::flex();
            let trained = net(inputs, hidden, &device.clone().autodiff());
            let pruned = one_shot(trained, &format!("{keys}\nsparsity = 0.75"));
            let packed = pruned.pack().valid();
            let masked = pruned.model().valid();
            for (batch, steps) in [(1, 1), (3, 5), (40, 2)] {
                let x = input([batch, steps, inputs], &device);
                let begin = Some(state(batch, hidden, &device));
                let (expected, _) = masked.lstm.forward(x.clone(), begin.clone());
                let ((found, _), ran) =
                    record_dispatch(|| packed.lstm.forward(x.clone(), begin.clone()));
                close(found, expected, &format!("{keys} {inputs} {hidden} {batch}"));
                // The input's four gates, and those of the hidden state at every step.
                assert_eq!(ran.len(), 4 + 4 * steps, "{keys}");
            }
        }
    }
}

/// Collects the gradients of every float parameter.
struct Gradients<'a> {
    of: &'a burn::tensor::Gradients,
    found: Vec<Vec<f32>>,
}

impl ModuleVisitor for Gradients<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let grad = param.base().grad(self.of).expect("every parameter takes part");
        self.found.push(grad.into_data().try_into_vec().unwrap());
    }
}

/// Replaces every float parameter, masked or packed, by its gradient.
struct ByGradient<'a>(&'a burn::tensor::Gradients);

impl ModuleMapper for ByGradient<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let grad = param.base().grad(self.0).expect("every parameter takes part");
        param.map(|_| Tensor::from_inner(grad))
    }
}

/// Collects all parameters.
struct Values(Vec<Vec<f32>>);

impl ModuleVisitor for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push(param.val().into_data().try_into_vec().unwrap());
    }
}

#[test]
fn packed_gates_train_their_kept_weights_as_masked_ones_do() {
    let device = Device::flex().autodiff();
    let pruned = one_shot(
        net(64, 32, &device),
        // The mask is then applied on every read, also of the gradients below.
        "pattern = { kind = \"shfl-bw\", vector = 8 }\nsparsity = 0.75\nregrow = \"straight-through\"",
    );
    let packed = pruned.pack();
    let gradients = |model: &Net| {
        let (y, _) = model.lstm.forward(input([2, 3, 64], &device), None);
        let grads = y.powi_scalar(2).mean().backward();
        // Gradients of dropped weights become zero in both forms.
        let dense = model.clone().map(&mut ByGradient(&grads)).materialize();
        let mut found = Values(Vec::new());
        dense.visit(&mut found);
        found.0
    };
    let (masked, packed) = (gradients(pruned.model()), gradients(&packed));
    assert_eq!(masked.len(), packed.len());
    let mut pruned = 0;
    for (masked, packed) in masked.iter().zip(&packed) {
        assert_eq!(masked.len(), packed.len());
        assert!(packed.iter().any(|&value| value.abs() > 1e-5));
        for (masked, packed) in masked.iter().zip(packed) {
            assert!((masked - packed).abs() < 1e-6, "{masked} {packed}");
        }
        pruned +=
            usize::from(packed.iter().filter(|&&value| value == 0.0).count() * 2 > packed.len());
    }
    assert_eq!(pruned, 8);
}

/// Doubles every float parameter.
struct Double;

impl ModuleMapper for Double {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|value| value * 2.0)
    }
}

#[test]
fn what_it_remembers_of_its_weights_goes_with_them() {
    let device = Device::flex();
    let x = input([2, 3, 64], &device);
    let pruned = one_shot(
        net(64, 32, &device.clone().autodiff()),
        "pattern = { kind = \"balanced\", block = 16 }\nsparsity = 0.75",
    );
    let masked = pruned.model().valid();
    for mut model in [net(64, 32, &device), masked, pruned.pack().valid()] {
        let fresh = |model: &Net| {
            let dense = model.clone().materialize();
            let again = net(64, 32, &device);
            again.try_load_record(dense.into_record()).unwrap().lstm.forward(x.clone(), None).0
        };
        for _ in 0..2 {
            close(model.lstm.forward(x.clone(), None).0, fresh(&model), "remembered");
            model = model.map(&mut Double);
        }
    }
}

#[test]
fn a_loop_of_ones_own_takes_the_same_steps() {
    let device = Device::flex();
    let net = net(16, 33, &device);
    let x = input([2, 4, 16], &device);
    let (expected, last) = net.lstm.forward(x.clone(), None);
    let cell = net.lstm.cell();
    let mut state = net.lstm.zeros(2, &device);
    for at in 0..4 {
        state = cell.step(x.clone().narrow(1, at, 1).squeeze_dim(1), state);
        let expected = expected.clone().narrow(1, at, 1).squeeze_dim(1);
        close(state.hidden.clone(), expected, "step");
    }
    close(state.cell, last.cell, "last");
}

#[test]
fn dense_gates_train_as_burns_own_do() {
    let device = Device::flex().autodiff();
    for (batch, steps, inputs, hidden) in
        [(1, 1, 1, 1), (3, 4, 7, 5), (19, 6, 33, 31), (2, 3, 16, 32)]
    {
        for reverse in [false, true] {
            let config = LstmConfig::new(inputs, hidden, true).with_reverse(reverse);
            let stock =
                seeded(&device, 5, |device| stock::<_, burn::nn::LstmConfig>(&config).init(device));
            let ours = config.init(&device);
            let ours = ours.try_load_record(stock.clone().into_record()).unwrap();
            let x = input([batch, steps, inputs], &device).require_grad();
            let begin = LstmState::new(
                input([batch, hidden], &device).require_grad(),
                (input([batch, hidden], &device) * 0.5).detach().require_grad(),
            );
            // Uses the outputs of every step and both final states, each in a different term.
            let loss = |(y, last): (Tensor<3>, LstmState<2>)| {
                let weights = input([batch, steps, hidden], &device);
                (y * weights).sum() + last.cell.powi_scalar(2).sum() + last.hidden.sum()
            };
            let of_begin = |grads: &burn::tensor::Gradients| {
                let begin = [&begin.cell, &begin.hidden].map(|state| state.grad(grads).unwrap());
                (x.grad(grads).unwrap(), begin)
            };
            let expected = loss(stock.forward(x.clone(), Some(begin.clone()))).backward();
            let found = loss(ours.forward(x.clone(), Some(begin.clone()))).backward();
            let what = format!("{batch} {steps} {inputs} {hidden} {reverse}");
            let ((x1, [c1, h1]), (x2, [c2, h2])) = (of_begin(&found), of_begin(&expected));
            close(x1, x2, &what);
            close(c1, c2, &what);
            close(h1, h2, &what);
            let (mut of_stock, mut of_ours) = (
                Gradients { of: &expected, found: Vec::new() },
                Gradients { of: &found, found: Vec::new() },
            );
            stock.visit(&mut of_stock);
            ours.visit(&mut of_ours);
            let (expected, found) = (of_stock.found, of_ours.found);
            assert_eq!(expected.len(), 16);
            for (expected, found) in expected.iter().flatten().zip(found.iter().flatten()) {
                let allowed = 1e-5 * (1.0 + expected.abs());
                assert!((expected - found).abs() < allowed, "{what}: {found} not {expected}");
            }
        }
    }
}
