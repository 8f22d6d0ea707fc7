//! Pruning of whole models by the inputs of their layers: what is recorded, in which order, for which layers.

use burn::module::Module;
use burn::nn::{LinearConfig, PaddingConfig2d};
use burn::tensor::{Device, Distribution, Tensor, TensorData};
use burn_sparse::calibrate::{Blocks, CalibrateConfig, CalibrateError, Saliency, Whole};
use burn_sparse::nn::conv::{Conv2d, Conv2dConfig};
use burn_sparse::nn::{Linear, Lstm, LstmConfig};
use burn_sparse::pattern::Distribution as Spread;
use burn_sparse::pattern::format::Integers;
use burn_sparse::prelude::*;
use burn_sparse_tests::calibration::{
    exact, forward, linear, matrix, plan, rule, smallest_error, tokens, values,
};
use burn_sparse_tests::models::seeded;

/// Layers one after the other.
#[derive(Module, Debug)]
struct Stack {
    layers: Vec<Linear>,
}

fn stack() -> Stack {
    Stack { layers: (0..3).map(|_| linear(24, 24, true)).collect() }
}

impl Stack {
    fn layer(&self, at: usize, x: &Tensor<2>) -> Tensor<2> {
        burn::tensor::activation::relu(self.layers[at].forward(x.clone()))
    }

    fn forward(&self, x: &Tensor<2>) -> Tensor<2> {
        (0..self.layers.len()).fold(x.clone(), |x, at| self.layer(at, &x))
    }
}

struct LayerByLayer;

impl Blocks<Stack> for LayerByLayer {
    type State = Tensor<2>;

    fn len(&self, model: &Stack) -> usize {
        model.layers.len()
    }

    fn run(&self, model: &Stack, block: usize, x: &Tensor<2>) -> Tensor<2> {
        model.layer(block, x)
    }
}

#[test]
fn a_packed_layer_that_is_not_planned_runs_while_others_are_recorded() {
    #[derive(Module, Debug)]
    struct Convolutions {
        first: Conv2d,
        second: Conv2d,
        third: Conv2d,
    }
    let device = Device::flex();
    let model = seeded(&device, 1, |device| {
        let layer = |inputs, outputs| Conv2dConfig::new([inputs, outputs], [3, 3]).init(device);
        Convolutions { first: layer(8, 16), second: layer(16, 24), third: layer(24, 8) }
    });
    let second = rule("balanced(block=8)", 0.75).with_params(["second.weight"]);
    let model = plan(&model, &second).attach(model).unwrap().finish().unwrap().pack();
    let first = plan(&model, &rule("balanced(block=8)", 0.5).with_params(["first.weight"]));
    let blocks = Whole::new(|model: &Convolutions, x: &Tensor<4>| {
        model.third.forward(model.second.forward(model.first.forward(x.clone())));
    });
    let x = Tensor::random([2, 8, 9, 9], Distribution::Default, &device);
    let found = first.calibrate(&model, &blocks, vec![x], &CalibrateConfig::new(), |_| ()).unwrap();
    assert_eq!(found.weights().len(), 1);
}

/// Returns the model with the weights of a layer multiplied, those of its first 12 inputs by `first`, the others by `others`.
fn scaled(mut model: Stack, layer: usize, first: f32, others: f32) -> Stack {
    let layer = &mut model.layers[layer];
    layer.weight = layer.weight.clone().map(|weight| {
        let part = |from: usize| weight.clone().narrow(0, from, 12);
        Tensor::cat(vec![part(0) * first, part(12) * others], 0)
    });
    model
}

#[test]
fn one_threshold_prunes_a_layer_more_if_some_of_its_weights_hardly_matter() {
    let x = tokens(256, 24);
    let sparsities = |model: &Stack, pattern: &str, score: Saliency| -> Vec<f64> {
        let rule = rule(pattern, 0.5).with_distribution(Spread::Global).with_cap(0.9);
        let config = CalibrateConfig::new().with_score(score);
        let plan = plan(model, &rule);
        let found = plan.calibrate(model, &LayerByLayer, vec![x.clone()], &config, |_| ()).unwrap();
        let sparsities = found.weights().iter().map(|weight| weight.sparsity).collect();
        let pruned = found.attach(model.clone()).unwrap().finish().unwrap();
        assert!((pruned.sparsity() - 0.5).abs() < 0.03, "{pattern}: {}", pruned.sparsity());
        sparsities
    };
    for pattern in
        ["unstructured", "balanced(block=12)", "shfl-bw(vector=4)", "vector-wise(vector=4)"]
    {
        // Half of the weights of the second layer hardly matter.
        let model = scaled(stack(), 1, 1e-3, 1.0);
        for score in [Saliency::Magnitude, Saliency::Wanda, Saliency::Obs] {
            let found = sparsities(&model, pattern, score);
            let before = sparsities(&stack(), pattern, score);
            let what = format!("{pattern} {score:?} {found:?} {before:?}");
            assert!(found[1] > before[1] + 0.05, "{what}");
            assert!(found.iter().all(|sparsity| *sparsity <= 0.92), "{what}");
        }
        // Scores are relative to a layer's outputs, magnitudes are not.
        let large = scaled(model.clone(), 2, 100.0, 100.0);
        for score in [Saliency::Wanda, Saliency::Obs] {
            assert_eq!(sparsities(&large, pattern, score), sparsities(&model, pattern, score));
        }
        let by_magnitude = |model: &Stack| sparsities(model, pattern, Saliency::Magnitude)[2];
        assert!(by_magnitude(&large) < by_magnitude(&model) - 0.1, "{pattern}");
    }
}

#[test]
fn a_layer_that_is_not_pruned_stays_as_it_is_to_the_bit() {
    let (model, x) = (stack(), tokens(64, 24));
    let rule = rule("shfl-bw(vector=4)", 0.5).with_except(["layers.1.*"]);
    let plan = plan(&model, &rule);
    let config = CalibrateConfig::new();
    let found = plan.calibrate(&model, &LayerByLayer, vec![x], &config, |_| ()).unwrap();
    let pruned = found.attach(model.clone()).unwrap().finish().unwrap();
    for (at, same) in [(0, false), (1, true), (2, false)] {
        let [a, b] = [pruned.model(), &model].map(|model| &model.layers[at]);
        assert_eq!(values(a.weight.val()) == values(b.weight.val()), same);
        let [a, b] = [a, b].map(|layer| values(layer.bias.as_ref().unwrap().val()));
        assert_eq!(a == b, same);
    }
}

#[test]
fn blocks_find_what_the_whole_model_finds() {
    let (model, x) = (stack(), tokens(128, 24));
    let plan = plan(&model, &rule("shfl-bw(vector=4)", 0.5));
    let whole = Whole::new(|model: &Stack, x: &Tensor<2>| {
        model.forward(x);
    });
    for share in [0.0, 0.5] {
        let config = CalibrateConfig::new().with_toward_dense(share);
        let by_block =
            plan.calibrate(&model, &LayerByLayer, vec![x.clone()], &config, |_| ()).unwrap();
        let at_once = plan.calibrate(&model, &whole, vec![x.clone()], &config, |_| ()).unwrap();
        let [a, b] = [by_block, at_once].map(|found| {
            let pruned = found.attach(model.clone()).unwrap().finish().unwrap();
            values(pruned.model().forward(&x))
        });
        assert_eq!(a, b, "share {share}");
    }
}

#[test]
fn a_layer_that_runs_more_often_in_some_batches_is_recorded_every_time() {
    let model = linear(24, 24, true);
    let plan = plan(&model, &rule("shfl-bw(vector=4)", 0.5));
    // Once for every 16 tokens.
    let recurrent = Whole::new(|model: &Linear, x: &Tensor<2>| {
        (0..x.dims()[0] / 16).fold(x.clone(), |x, _| model.forward(x));
    });
    let config = CalibrateConfig::new().with_toward_dense(0.5);
    for order in [[16, 64, 32], [64, 32, 16]] {
        let batches = order.map(|count| tokens(count, 24)).to_vec();
        let found = plan.calibrate(&model, &recurrent, batches, &config, |_| ()).unwrap();
        assert_eq!(found.weights()[0].tokens, 16 + 64 * 4 + 32 * 2, "{order:?}");
    }
}

#[test]
fn aiming_at_the_dense_outputs_undoes_what_earlier_layers_lost() {
    let (model, x) = (stack(), tokens(256, 24));
    let plan = plan(&model, &rule("shfl-bw(vector=4)", 0.5));
    let dense = model.forward(&x);
    let off = |share: f64| {
        let config = CalibrateConfig::new().with_toward_dense(share);
        let found = plan.calibrate(&model, &LayerByLayer, vec![x.clone()], &config, |_| ());
        let pruned = found.unwrap().attach(model.clone()).unwrap().finish().unwrap();
        values((pruned.model().forward(&x) - dense.clone()).powi_scalar(2).sum())[0]
    };
    let (own, half, full) = (off(0.0), off(0.5), off(1.0));
    assert!(full < half && half < own, "{own} {half} {full}");
}

#[test]
fn aiming_at_the_dense_outputs_solves_their_least_squares() {
    let (model, x) = (stack(), tokens(256, 24));
    let plan = plan(&model, &rule("shfl-bw(vector=4)", 0.5));
    let config = exact().with_toward_dense(1.0);
    let found = plan.calibrate(&model, &LayerByLayer, vec![x.clone()], &config, |_| ()).unwrap();
    let pruned = found.attach(model.clone()).unwrap().finish().unwrap();
    let (mut dense, mut sparse) = (x.clone(), x);
    for (at, weight) in pruned.weights().iter().enumerate() {
        let wanted = matrix(model.layers[at].forward(dense.clone()));
        let smallest = smallest_error(&matrix(sparse.clone()), &wanted, weight, true);
        let off = matrix(pruned.model().layers[at].forward(sparse.clone())) - &wanted;
        let found = off.squared_norm_l2();
        assert!((found - smallest).abs() < 1e-4 * smallest, "layer {at}: {found} {smallest}");
        (dense, sparse) = (model.layer(at, &dense), pruned.model().layer(at, &sparse));
    }
}

#[derive(Module, Debug)]
struct Picture {
    conv: Conv2d,
}

#[test]
fn no_kept_weight_of_a_repaired_convolution_has_a_slope() {
    let device = Device::flex();
    let geometries = [
        Conv2dConfig::new([3, 8], [3, 3]).with_padding(PaddingConfig2d::Same),
        Conv2dConfig::new([4, 8], [2, 3]).with_stride([2, 1]).with_bias(false),
        Conv2dConfig::new([2, 8], [3, 2])
            .with_dilation([1, 2])
            .with_padding(PaddingConfig2d::Explicit(0, 1, 2, 1)),
    ];
    for config in geometries {
        let model = seeded(&device, 2, |device| Picture { conv: config.init(device) });
        let channels = config.channels[0];
        let x = seeded(&device, 4, |device| {
            Tensor::<4>::random([5, channels, 9, 8], Distribution::Default, device)
        });
        for pattern in ["shfl-bw(vector=4)", "balanced(block=4)"] {
            let forward = Whole::new(|model: &Picture, x: &Tensor<4>| {
                model.conv.forward(x.clone());
            });
            let plan = plan(&model, &rule(pattern, 0.5));
            let found = plan.calibrate(&model, &forward, vec![x.clone()], &exact(), |_| ());
            let pruned = found.unwrap().attach(model.clone()).unwrap().finish().unwrap();

            // The slope of the squared error by autodiff, at the repaired weights.
            let trained = pruned.model().clone().materialize().train();
            let input = Tensor::from_inner(x.clone());
            let wanted = Tensor::from_inner(model.conv.forward(x.clone()));
            let off = (trained.conv.forward(input) - wanted.clone()).powi_scalar(2).sum();
            let grads = off.backward();
            let slope = values(trained.conv.weight.val().grad(&grads).unwrap());
            let kept = values(trained.conv.weight.val().inner());
            let most = |keep: bool| {
                let of = slope.iter().zip(&kept).filter(|(_, weight)| (**weight != 0.0) == keep);
                of.map(|(slope, _)| slope.abs()).fold(0.0, f64::max)
            };
            assert!(most(true) < 1e-3 * most(false), "{pattern}: {} {}", most(true), most(false));
        }
    }
}

#[derive(Module, Debug)]
struct Recurrent {
    lstm: Lstm,
}

#[test]
fn gates_of_an_lstm_are_recorded_over_all_steps() {
    let device = Device::flex();
    let model =
        seeded(&device, 6, |device| Recurrent { lstm: LstmConfig::new(16, 16, true).init(device) });
    let x =
        seeded(&device, 8, |device| Tensor::<3>::random([4, 5, 16], Distribution::Default, device));
    let forward = Whole::new(|model: &Recurrent, x: &Tensor<3>| {
        model.lstm.forward(x.clone(), None);
    });
    let plan = plan(&model, &rule("shfl-bw(vector=4)", 0.5));
    let found = plan.calibrate(&model, &forward, vec![x], &CalibrateConfig::new(), |_| ()).unwrap();
    assert_eq!(found.weights().len(), 8);
    assert!(found.weights().iter().all(|weight| weight.tokens == 20 && weight.error < 1.0));
    assert!(found.weights().iter().all(|weight| weight.error <= weight.error_masked));
}

/// A layer that batches pass, one that they do not, and one of burn-nn.
#[derive(Module, Debug)]
struct Partly {
    used: Linear,
    unused: Linear,
    foreign: burn::nn::Linear,
}

#[test]
fn a_layer_that_cannot_be_recorded_is_named_before_anything_runs() {
    let model = Partly {
        used: linear(8, 8, true),
        unused: linear(8, 8, true),
        foreign: LinearConfig::new(8, 8).init(&Device::flex()),
    };
    let forward = Whole::new(|model: &Partly, x: &Tensor<2>| {
        model.foreign.forward(model.used.forward(x.clone()));
    });
    for name in ["unused", "foreign"] {
        let rule =
            rule("balanced(block=4)", 0.5).with_params(["used.weight", &format!("{name}.*")]);
        let batches = vec![tokens(8, 8)];
        let mut called = false;
        let error = plan(&model, &rule)
            .calibrate(&model, &forward, batches, &CalibrateConfig::new(), |_| called = true)
            .unwrap_err();
        assert!(error.to_string().contains(&format!("{name}.weight")), "{error}");
        assert!(!called);
    }
}

#[test]
fn a_forward_pass_that_panics_leaves_layers_as_they_were() {
    let model = stack();
    let x = tokens(9, 24);
    let before = values(model.forward(&x));
    let plan = plan(&model, &rule("balanced(block=8)", 0.5));
    let whole = Whole::new(|model: &Stack, x: &Tensor<2>| {
        model.forward(x);
        assert!(x.dims()[0] != 3, "three tokens");
    });
    let calibrate = || {
        let batches = vec![x.clone(), tokens(3, 24)];
        drop(plan.calibrate(&model, &whole, batches, &CalibrateConfig::new(), |_| ()));
    };
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(calibrate));
    assert!(panicked.is_err());
    assert_eq!(values(model.forward(&x)), before);
}

#[test]
fn a_layer_that_the_model_holds_twice_is_refused_with_both_paths() {
    let mut model = stack();
    model.layers[2] = model.layers[0].clone();
    let plan = plan(&model, &rule("balanced(block=8)", 0.5).with_params(["layers.0.*"]));
    let whole = Whole::new(|model: &Stack, x: &Tensor<2>| drop(model.forward(x)));
    let config = CalibrateConfig::new();
    let found = plan.calibrate(&model, &whole, vec![tokens(9, 24)], &config, |_| ());
    let error = found.unwrap_err().to_string();
    assert!(error.contains("layers.0.weight") && error.contains("layers.2.weight"), "{error}");
}

#[test]
fn bad_input_is_one_clear_error() {
    let model = linear(8, 8, true);
    let run = |rule: &PruneConfig, x: Vec<Tensor<2>>, config: CalibrateConfig| {
        let plan = Plan::new(rule, &model, Horizon::steps(10)).unwrap();
        plan.calibrate(&model, &forward(), x, &config, |_| ()).unwrap_err()
    };
    let (rule, config) = (rule("balanced(block=4)", 0.5), CalibrateConfig::new());
    assert!(matches!(run(&rule, vec![], config), CalibrateError::NoInputs));
    let ramp = rule.clone().with_ramp(Ramp::cubic(Steps(4)).with_every(Steps(2)));
    assert!(matches!(run(&ramp, vec![tokens(4, 8)], config), CalibrateError::Ramp { end: 4, .. }));
    for (key, config) in [
        ("toward_dense", config.with_toward_dense(1.5)),
        ("toward_dense", config.with_toward_dense(f64::NAN)),
        ("damp", config.with_damp(-1.0)),
        ("damp", config.with_damp(f64::INFINITY)),
        ("reconstruct", config.with_reconstruct(9).with_values(Integers::Int4)),
    ] {
        let error = run(&rule, vec![tokens(4, 8)], config).to_string();
        assert!(error.contains(key), "{error}");
    }
    let broken = Tensor::from_data(TensorData::new(vec![f32::NAN; 16], [2, 8]), &Device::flex());
    assert!(matches!(run(&rule, vec![broken], config), CalibrateError::NotFinite { .. }));

    let conv = Conv2dConfig::new([3, 8], [3, 3]).init(&Device::flex());
    let (model, x) = (Picture { conv }, Tensor::zeros([1, 3, 9, 8], &Device::flex()));
    let whole = Whole::new(|model: &Picture, x: &Tensor<4>| {
        model.conv.forward(x.clone());
    });
    let config = config.with_values(Integers::Int4);
    let refused = plan(&model, &rule).calibrate(&model, &whole, vec![x], &config, |_| ());
    assert!(matches!(refused, Err(CalibrateError::Integers { .. })));
}

#[test]
fn calibrated_masks_stay_while_the_model_is_fine_tuned() {
    use burn::optim::{GradientsParams, SgdConfig};
    let (model, x) = (stack(), tokens(64, 24));
    let plan = plan(&model, &rule("shfl-bw(vector=4)", 0.5));
    let config = CalibrateConfig::new();
    let found = plan.calibrate(&model, &LayerByLayer, vec![x.clone()], &config, |_| ()).unwrap();
    let mut sparse = found.attach(model.clone().train()).unwrap();
    let before = sparse.masks().unwrap();
    let (x, wanted) = (Tensor::from_inner(x.clone()), Tensor::from_inner(model.forward(&x)));
    let mut optimizer = SgdConfig::new().init();
    let mut losses = Vec::new();
    for _ in 0..20 {
        let loss = (sparse.inner().forward(&x) - wanted.clone()).powi_scalar(2).mean();
        losses.push(values(loss.clone().inner())[0]);
        let grads = GradientsParams::from_grads(loss.backward(), sparse.inner());
        sparse = sparse.optimizer_step(&mut optimizer, 1e-2, grads);
    }
    assert!(losses[19] < losses[0], "{losses:?}");
    assert_eq!(sparse.masks().unwrap(), before);
    sparse.finish().unwrap();
}
