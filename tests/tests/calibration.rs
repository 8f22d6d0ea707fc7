//! Pruning by the inputs of layers: repaired weights are the least squares solution on their mask, whatever the pattern, the
//! layer, and the inputs.

use burn::module::{Module, Param};
use burn::nn::{LinearConfig, PaddingConfig2d};
use burn::tensor::{Device, Distribution, Tensor, TensorData};
use burn_sparse::calibrate::{Blocks, CalibrateConfig, CalibrateError, Saliency, Whole};
use burn_sparse::nn::conv::{Conv2d, Conv2dConfig};
use burn_sparse::nn::{Linear, Lstm, LstmConfig};
use burn_sparse::pattern::format::Integers;
use burn_sparse::prelude::*;
use burn_sparse::train::Pruned;
use burn_sparse_tests::models::seeded;
use faer::{Mat, linalg::solvers::SolveLstsq};

/// Patterns that keep the same columns in several rows, and patterns whose rows choose on their own.
const PATTERNS: [&str; 9] = [
    "unstructured",
    "balanced(block=8)",
    "n-of-m(keep=2,of=4)",
    "vector-wise(vector=4)",
    "shfl-bw(vector=4)",
    "shfl-bw(vector=32)",
    "shfl-bw(vector=8,equal_groups=false)",
    "hinm(vector=4,keep=2,of=4)",
    "block-wise(block=4)",
];

fn linear(inputs: usize, outputs: usize, bias: bool) -> Linear {
    seeded(&Device::flex(), 3, |device| {
        LinearConfig::new(inputs, outputs).with_bias(bias).init(device)
    })
    .into()
}

/// Returns tokens whose features are correlated, as those of networks are, with means that are not zero.
fn tokens(count: usize, features: usize) -> Tensor<2> {
    seeded(&Device::flex(), 5, |device| {
        let mix = Tensor::<2>::random([features, features], Distribution::Default, device);
        let noise = Tensor::random([count, features], Distribution::Normal(0.0, 1.0), device);
        (noise.clone().matmul(mix) * 0.3 + noise) + 0.5
    })
}

fn forward() -> Whole<Tensor<2>, impl Fn(&Linear, &Tensor<2>)> {
    Whole::new(|model: &Linear, x: &Tensor<2>| {
        model.forward(x.clone());
    })
}

/// Tiny damping, and the layer's own outputs as the target: plain least squares.
fn exact() -> CalibrateConfig {
    CalibrateConfig::new().with_toward_dense(0.0).with_damp(1e-12)
}

fn rule(pattern: &str, sparsity: f64) -> PruneConfig {
    PruneConfig::new(pattern.parse().unwrap(), sparsity)
}

fn plan<M: Module>(model: &M, rule: &PruneConfig) -> Plan {
    Plan::new(rule, model, Horizon::steps(0)).unwrap()
}

fn pruned(
    model: &Linear,
    rule: &PruneConfig,
    batches: Vec<Tensor<2>>,
    config: &CalibrateConfig,
) -> Pruned<Linear> {
    let found = plan(model, rule).calibrate(model, &forward(), batches, config, |_| ()).unwrap();
    found.attach(model.clone()).unwrap().finish().unwrap()
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().convert::<f64>().try_into_vec().unwrap()
}

fn matrix(tensor: Tensor<2>) -> Mat<f64> {
    let [rows, cols] = tensor.dims();
    let values = values(tensor);
    Mat::from_fn(rows, cols, |row, col| values[row * cols + col])
}

/// Returns the squared error of `X W` against `X target`.
fn error(x: &Mat<f64>, weights: &Mat<f64>, target: &Mat<f64>) -> f64 {
    (x * (weights - target)).squared_norm_l2()
}

/// Returns the smallest squared error that weights on the mask of `pruned` can reach, by QR of the inputs themselves.
fn smallest_error(x: &Mat<f64>, target: &Mat<f64>, pruned: &Pruned<Linear>) -> f64 {
    let mask = &pruned.weights()[0].mask;
    let wanted = x * target;
    let column = |row: usize| {
        let kept: Vec<usize> = mask.row_columns(row).collect();
        let part = Mat::from_fn(x.nrows(), kept.len(), |token, at| x[(token, kept[at])]);
        let goal = Mat::from_fn(x.nrows(), 1, |token, _| wanted[(token, row)]);
        let solution = part.qr().solve_lstsq(&goal);
        (&part * &solution - &goal).squared_norm_l2()
    };
    (0..mask.rows()).map(column).sum()
}

#[test]
fn for_every_pattern_the_repaired_weights_are_the_least_squares_solution() {
    for (outputs, inputs) in [(32, 32), (33, 40), (31, 17), (1, 24)] {
        let (model, x) = (linear(inputs, outputs, false), tokens(160, inputs));
        let (target, inputs) = (matrix(model.weight.val()), matrix(x.clone()));
        for pattern in PATTERNS {
            let pruned = pruned(&model, &rule(pattern, 0.5), vec![x.clone()], &exact());
            let found = error(&inputs, &matrix(pruned.model().weight.val()), &target);
            let smallest = smallest_error(&inputs, &target, &pruned);
            // Of the size of the outputs: their error itself may be zero.
            let scale = error(&inputs, &(&target * 0.0), &target);
            assert!(
                (found - smallest).abs() <= 1e-6 * smallest + 1e-12 * scale,
                "{pattern}, {outputs} x {}: {found} instead of {smallest}",
                inputs.ncols()
            );
        }
    }
}

#[test]
fn the_bias_makes_up_for_the_means() {
    let (mut model, x) = (linear(24, 16, true), tokens(200, 24));
    model.bias = Some(Param::from_tensor(Tensor::ones([16], &Device::flex())));
    for pattern in PATTERNS {
        let pruned = pruned(&model, &rule(pattern, 0.5), vec![x.clone()], &exact());
        let mean = |model: &Linear| values(model.forward(x.clone()).mean_dim(0));
        for (found, expected) in mean(pruned.model()).iter().zip(mean(&model)) {
            assert!((found - expected).abs() < 1e-5, "{pattern}: {found} instead of {expected}");
        }
        // With a bias, the least squares are those of inputs and a constant.
        let with_one = Mat::from_fn(200, 25, |token, at| match at {
            24 => 1.0,
            _ => matrix(x.clone())[(token, at)],
        });
        let wanted = matrix(model.forward(x.clone()));
        let off = matrix(pruned.model().forward(x.clone())) - &wanted;
        let mask = &pruned.weights()[0].mask;
        let smallest: f64 = (0..16)
            .map(|row| {
                let kept: Vec<usize> = mask.row_columns(row).chain([24]).collect();
                let part = Mat::from_fn(200, kept.len(), |token, at| with_one[(token, kept[at])]);
                let goal = Mat::from_fn(200, 1, |token, _| wanted[(token, row)]);
                (&part * part.qr().solve_lstsq(&goal) - &goal).squared_norm_l2()
            })
            .sum();
        let found = off.squared_norm_l2();
        assert!((found - smallest).abs() < 1e-4 * smallest, "{pattern}: {found} {smallest}");
    }
}

#[test]
fn repair_beats_the_mask_alone_and_scores_of_inputs_beat_magnitudes() {
    let (model, x) = (linear(64, 64, false), tokens(512, 64));
    // Some inputs are a hundred times larger than others.
    let sizes: Vec<f32> = (0..64).map(|at| if at % 7 == 0 { 100.0 } else { 1.0 }).collect();
    let x = x * Tensor::<1>::from_floats(sizes.as_slice(), &Device::flex()).unsqueeze::<2>();
    let target = matrix(model.weight.val());
    let error_of = |config: CalibrateConfig, pattern: &str| {
        let pruned = pruned(&model, &rule(pattern, 0.5), vec![x.clone()], &config);
        error(&matrix(x.clone()), &matrix(pruned.model().weight.val()), &target)
    };
    for pattern in PATTERNS {
        let of = |score, repair| error_of(exact().with_score(score).with_repair(repair), pattern);
        let magnitude = of(Saliency::Magnitude, false);
        let (wanda, repaired) = (of(Saliency::Wanda, false), of(Saliency::Wanda, true));
        let obs = of(Saliency::Obs, true);
        assert!(wanda <= magnitude, "{pattern}: {wanda} {magnitude}");
        assert!(repaired < wanda, "{pattern}: {repaired} {wanda}");
        assert!(obs < of(Saliency::Magnitude, true), "{pattern}: {obs}");
    }
}

#[test]
fn singular_inputs_give_finite_weights_and_the_damping_is_reported() {
    let constant = Tensor::<2>::ones([64, 24], &Device::flex());
    let dead = tokens(64, 24).slice_assign([0..64, 3..9], Tensor::zeros([64, 6], &Device::flex()));
    let single = tokens(1, 24);
    let zeros = Tensor::<2>::zeros([8, 24], &Device::flex());
    for bias in [false, true] {
        let model = linear(24, 16, bias);
        for (what, x) in
            [("constant", &constant), ("dead", &dead), ("single", &single), ("zeros", &zeros)]
        {
            for pattern in PATTERNS {
                let plan = plan(&model, &rule(pattern, 0.5));
                let config = exact().with_damp(0.0);
                let found =
                    plan.calibrate(&model, &forward(), vec![x.clone()], &config, |_| ()).unwrap();
                assert!(found.weights()[0].damp > 0.0, "{what}, {pattern}");
                let pruned = found.attach(model.clone()).unwrap().finish().unwrap();
                let finite = values(pruned.model().weight.val()).iter().all(|w| w.is_finite());
                assert!(finite, "{what}, {pattern}");
                // What can be reached exactly is.
                let (a, b) = (pruned.model().forward(x.clone()), model.forward(x.clone()));
                let off = values((a - b.clone()).powi_scalar(2).sum())[0];
                if what == "single" || what == "constant" {
                    let scale = values(b.powi_scalar(2).sum())[0];
                    assert!(off < 1e-5 * scale, "{what}, {pattern}: {off} of {scale}");
                }
            }
        }
    }
}

#[test]
fn inputs_that_are_always_zero_lose_their_weights_first() {
    let (model, x) = (linear(32, 8, false), tokens(128, 32));
    let x = x.slice_assign([0..128, 0..16], Tensor::zeros([128, 16], &Device::flex()));
    for score in [Saliency::Wanda, Saliency::Obs] {
        let config = exact().with_damp(1e-6).with_score(score);
        let pruned = pruned(&model, &rule("unstructured", 0.5), vec![x.clone()], &config);
        for row in 0..8 {
            let kept: Vec<usize> = pruned.weights()[0].mask.row_columns(row).collect();
            assert!(kept.iter().all(|&col| col >= 16), "{score:?}: {kept:?}");
        }
    }
}

#[test]
fn a_group_may_keep_a_single_column() {
    let (model, x) = (linear(16, 12, false), tokens(64, 16));
    for pattern in ["shfl-bw(vector=4)", "vector-wise(vector=12)", "shfl-bw(vector=5)"] {
        let rule = rule(pattern, 0.93);
        let pruned = pruned(&model, &rule, vec![x.clone()], &exact());
        assert_eq!(pruned.weights()[0].mask.row_columns(0).count(), 1, "{pattern}");
        let (target, inputs) = (matrix(model.weight.val()), matrix(x.clone()));
        let found = error(&inputs, &matrix(pruned.model().weight.val()), &target);
        let smallest = smallest_error(&inputs, &target, &pruned);
        assert!((found - smallest).abs() < 1e-6 * smallest, "{pattern}: {found} {smallest}");
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
fn batches_add_up() {
    let (model, x) = (linear(24, 16, true), tokens(96, 24));
    let rule = rule("shfl-bw(vector=4)", 0.5);
    let whole = pruned(&model, &rule, vec![x.clone()], &exact());
    let parts = pruned(&model, &rule, x.split(31, 0), &exact());
    assert_eq!(whole.weights()[0].mask, parts.weights()[0].mask);
    let [a, b] = [whole, parts].map(|pruned| values(pruned.model().weight.val()));
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5));
}

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
fn rounded_weights_are_integers_whose_outputs_err_less_than_those_of_the_nearest() {
    let (model, x) = (linear(128, 64, true), tokens(600, 128));
    let target = values(model.forward(x.clone()));
    let error = |layer: &Linear| -> f64 {
        let found = values(layer.forward(x.clone()));
        found.iter().zip(&target).map(|(a, b)| (a - b).powi(2)).sum()
    };
    for (pattern, integers) in PATTERNS
        .into_iter()
        .flat_map(|pattern| [(pattern, Integers::Int8), (pattern, Integers::Int4)])
    {
        let (rule, config) = (rule(pattern, 0.5), exact());
        let found = plan(&model, &rule).calibrate(
            &model,
            &forward(),
            vec![x.clone()],
            &config.with_values(integers),
            |_| (),
        );
        let found = found.unwrap();
        let scales = found.scales().clone();
        assert_eq!(scales.keys().collect::<Vec<_>>(), ["weight"]);
        let pruned = found.attach(model.clone()).unwrap().finish().unwrap();
        let floats = pruned.checkpoint();
        let checkpoint = floats.clone().with_scales(&scales).unwrap();
        assert_eq!(checkpoint.entries()["weight"].value_type(), integers.into());
        // The scales stand for the values that calibration found.
        let stored = |checkpoint: &Checkpoint| checkpoint.entries()["weight"].stored();
        assert_eq!(stored(&checkpoint), stored(&floats));
        let ours = error(&checkpoint.load_dense(model.clone()).unwrap());
        let nearest = self::pruned(&model, &rule, vec![x.clone()], &config);
        let nearest = nearest.checkpoint().with_values(integers).unwrap();
        let theirs = error(&nearest.load_dense(model.clone()).unwrap());
        assert!(ours < theirs, "{pattern} {integers:?}: {ours} {theirs}");
    }
}

#[test]
fn without_any_sparsity_weights_are_only_rounded() {
    let (model, x) = (linear(64, 32, false), tokens(300, 64));
    let plan = plan(&model, &rule("shfl-bw(vector=4)", 0.5)).keeping_all();
    let config = exact().with_values(Integers::Int4);
    let found = plan.calibrate(&model, &forward(), vec![x], &config, |_| ()).unwrap();
    assert_eq!(found.weights()[0].sparsity, 0.0);
    assert!(found.weights()[0].error > 0.0 && found.weights()[0].error < 0.2);
    let rounded = Checkpoint::of_dense(&found.apply(model));
    let with_scales = rounded.clone().with_scales(found.scales()).unwrap();
    let values = |checkpoint: &Checkpoint| checkpoint.entries()["weight"].stored();
    assert_eq!(values(&with_scales), values(&rounded));
    assert!(with_scales.packed().next().is_none());

    let other = Checkpoint::of_dense(&linear(32, 32, false));
    let error = other.with_scales(found.scales()).unwrap_err().to_string();
    assert!(error.contains("parameter weight") && error.contains("scales"), "{error}");
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

/// Two layers and what lies between them, added to their input.
#[derive(Module, Debug)]
struct Residual {
    inner: Linear,
    outer: Linear,
    scale: Linear,
}

#[derive(Module, Debug)]
struct Residuals {
    blocks: Vec<Residual>,
}

fn residuals() -> Residuals {
    let block = |_| Residual {
        inner: linear(24, 48, true),
        outer: linear(48, 24, true),
        scale: linear(24, 24, false),
    };
    Residuals { blocks: (0..2).map(block).collect() }
}

struct ResidualBlocks;

impl Blocks<Residuals> for ResidualBlocks {
    type State = Tensor<3>;

    fn len(&self, model: &Residuals) -> usize {
        model.blocks.len()
    }

    fn run(&self, model: &Residuals, block: usize, x: &Tensor<3>) -> Tensor<3> {
        let block = &model.blocks[block];
        x.clone() + block.scale.forward(block.outer.forward(block.inner.forward(x.clone()).tanh()))
    }

    fn features(&self, x: &Tensor<3>) -> Option<Tensor<3>> {
        Some(x.clone())
    }

    fn with_features(&self, _x: &Tensor<3>, features: Tensor<3>) -> Tensor<3> {
        features
    }
}

fn sequences() -> Vec<Tensor<3>> {
    let one = |at: usize| tokens(1024, 24).narrow(0, at * 256, 256).reshape([4, 64, 24]);
    (0..4_usize).map(one).collect()
}

#[test]
fn reconstructed_blocks_are_closer_to_the_dense_ones_and_keep_their_masks() {
    let model = residuals();
    let rule = rule("shfl-bw(vector=8)", 0.75).with_except(["*.scale.*"]);
    let plan = plan(&model, &rule);
    let run = |steps: usize| {
        let config = CalibrateConfig::new().with_toward_dense(1.0).with_reconstruct(steps);
        plan.calibrate(&model, &ResidualBlocks, sequences(), &config, |_| ()).unwrap()
    };
    let (plain, found) = (run(0), run(200));
    assert!(plain.blocks().is_empty());
    let reported: Vec<usize> = found.blocks().iter().map(|block| block.block).collect();
    assert_eq!(reported, [0, 1]);
    for block in found.blocks() {
        assert_eq!(block.weights.len(), 2);
        assert!(block.error < 0.95 * block.error_before, "{block:?}");
    }
    let again = run(200);
    let errors = |found: &burn_sparse::calibrate::Calibrated| -> Vec<f64> {
        found.blocks().iter().map(|block| block.error).collect()
    };
    assert_eq!(errors(&found), errors(&again));

    let output = |model: &Residuals| {
        let run = |x, block| ResidualBlocks.run(model, block, &x);
        (0..2).fold(sequences().remove(0), run)
    };
    let dense = output(&model);
    let off = |model: &Residuals| values((output(model) - dense.clone()).powi_scalar(2).sum())[0];
    let [plain, found] =
        [plain, found].map(|found| found.attach(model.clone()).unwrap().finish().unwrap());
    // Masks of the first block are found before anything is trained.
    for (a, b) in plain.weights().iter().zip(found.weights()).take(2) {
        assert_eq!(a.mask, b.mask);
    }
    assert!(off(found.model()) < 0.9 * off(plain.model()));
    let scale = |model: &Residuals| values(model.blocks[1].scale.weight.val());
    assert_eq!(scale(found.model()), scale(&model), "a layer that is not pruned");
}

#[test]
fn a_model_without_blocks_of_features_is_not_reconstructed() {
    let model = linear(16, 8, true);
    let plan = plan(&model, &rule("unstructured", 0.5));
    let config = CalibrateConfig::new().with_reconstruct(10);
    let found = plan.calibrate(&model, &forward(), vec![tokens(32, 16)], &config, |_| ());
    assert!(matches!(found.unwrap_err(), CalibrateError::NoFeatures));
}
