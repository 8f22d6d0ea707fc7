//! Pruning of one layer by its inputs: repaired weights are the least squares solution on their mask, whatever the pattern and
//! the inputs; rounded ones err less than those that are rounded afterwards.

use burn::module::Param;
use burn::tensor::{Device, Tensor};
use burn_sparse::calibrate::{CalibrateConfig, Saliency};
use burn_sparse::nn::Linear;
use burn_sparse::pattern::format::Integers;
use burn_sparse::prelude::*;
use burn_sparse::train::Pruned;
use burn_sparse_tests::calibration::{
    PATTERNS, exact, forward, linear, matrix, plan, rule, smallest_error, tokens, values,
};
use faer::Mat;

fn pruned(
    model: &Linear,
    rule: &PruneConfig,
    batches: Vec<Tensor<2>>,
    config: &CalibrateConfig,
) -> Pruned<Linear> {
    let found = plan(model, rule).calibrate(model, &forward(), batches, config, |_| ()).unwrap();
    found.attach(model.clone()).unwrap().finish().unwrap()
}

/// Returns the squared error of `X W` against `X target`.
fn error(x: &Mat<f64>, weights: &Mat<f64>, target: &Mat<f64>) -> f64 {
    (x * (weights - target)).squared_norm_l2()
}

#[test]
fn for_every_pattern_the_repaired_weights_are_the_least_squares_solution() {
    for (outputs, inputs) in [(32, 32), (33, 40), (31, 17), (1, 24)] {
        let (model, x) = (linear(inputs, outputs, false), tokens(160, inputs));
        let (target, inputs) = (matrix(model.weight.val()), matrix(x.clone()));
        for pattern in PATTERNS {
            let pruned = pruned(&model, &rule(pattern, 0.5), vec![x.clone()], &exact());
            let found = error(&inputs, &matrix(pruned.model().weight.val()), &target);
            let smallest =
                smallest_error(&inputs, &(&inputs * &target), &pruned.weights()[0], false);
            // Relative to the outputs: their error itself may be zero.
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
        let wanted = matrix(model.forward(x.clone()));
        let off = matrix(pruned.model().forward(x.clone())) - &wanted;
        let smallest = smallest_error(&matrix(x.clone()), &wanted, &pruned.weights()[0], true);
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
fn without_repair_a_score_counts_the_means_that_no_bias_makes_up_for() {
    let device = Device::flex();
    let mut model = linear(2, 3, true);
    model.weight = Param::from_tensor(Tensor::ones([2, 3], &device));
    // The first input is nearly constant, and ten times as large as the second.
    let x = tokens(256, 2).slice_fill([0..256, 0..1], 10.0)
        + tokens(256, 2) * Tensor::<1>::from_floats([1e-3, 0.0], &device).unsqueeze::<2>();
    for score in [Saliency::Wanda, Saliency::Obs] {
        let first = |repair: bool| {
            let config = exact().with_score(score).with_repair(repair);
            let pruned = pruned(&model, &rule("unstructured", 0.5), vec![x.clone()], &config);
            let kept = &pruned.weights()[0].mask;
            (0..3).map(|row| kept.get(row, 0)).collect::<Vec<_>>()
        };
        assert_eq!(first(false), [true; 3], "{score:?}");
        // A repaired bias takes a constant over.
        assert_eq!(first(true), [false; 3], "{score:?}");
    }
}

#[test]
fn a_plan_of_another_model_is_refused_before_anything_is_pruned() {
    let (small, large) = (linear(32, 32, true), linear(64, 32, true));
    let plan = plan(&large, &rule("balanced(block=32)", 0.5));
    let words = ["weight", "[32, 32]", "[64, 32]", "another model"];
    let attached = plan.attach(small.clone()).map(|_| ()).unwrap_err().to_string();
    let batches = vec![tokens(8, 32)];
    let calibrated = plan.calibrate(&small, &forward(), batches, &exact(), |_| ()).map(|_| ());
    for error in [attached, calibrated.unwrap_err().to_string()] {
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
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
                // Outputs that can be reached exactly are reached.
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
        let smallest = smallest_error(&inputs, &(&inputs * &target), &pruned.weights()[0], false);
        assert!((found - smallest).abs() < 1e-6 * smallest, "{pattern}: {found} {smallest}");
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
