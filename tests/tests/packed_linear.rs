//! Tests of `burn_sparse::nn::Linear` with a packed weight: the kernel chosen, and correct results for any choice.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor, TensorData};
use burn_sparse::checkpoint::Checkpoint;
use burn_sparse::nn::{Activation, Linear, LinearConfig, activate, record_dispatch};
use burn_sparse::pattern::format::{Entry, FloatType, PackedEntry, View};
use burn_sparse::pattern::{Packed, Pattern, Scores, Search};

fn noise(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0).collect()
}

/// Returns a layer of masked random weights, and the same layer packed.
fn layers(rows: usize, cols: usize, float: FloatType) -> (Linear, Linear) {
    let pattern: Pattern = "balanced(block=32)".parse().unwrap();
    let weights = noise(rows * cols);
    let scores: Vec<f32> = weights.iter().map(|w| w.abs()).collect();
    let scores = Scores::new(rows, cols, &scores).unwrap();
    let found = pattern.project(&scores, 0.75, &Search::default()).unwrap();
    let packed = Packed::pack(&pattern, &weights, &found.mask, None).unwrap();
    let device = Device::flex();
    let mut dense = LinearConfig::new(cols, rows).init(&device);
    let view = View::Linear { rows, cols };
    let stored = TensorData::new(view.to_stored(&packed.unpack()), [cols, rows]);
    dense.weight = Param::from_data(stored, &device);
    let entry = PackedEntry { layer: "Linear".into(), view, pattern, packed, float, scales: None };
    let bias = dense.bias.as_ref().unwrap().val().into_data().try_into_vec().unwrap();
    let (layer, shape) = ("Linear".into(), vec![rows]);
    let bias = Entry::Dense { layer, shape, values: bias, float: FloatType::F32, scales: None };
    let entries = [("weight".to_string(), Entry::Packed(entry)), ("bias".to_string(), bias)];
    let packed = Checkpoint::from_entries(entries.into()).load(dense.clone()).unwrap();
    (dense, packed)
}

fn values(tensor: Tensor<2>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}

fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let close = (found - expected).abs() <= tolerance * (1.0 + expected.abs());
        assert!(close, "{found} instead of {expected}");
    }
}

/// Doubles every float parameter.
struct Double;

impl ModuleMapper for Double {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|value| value * 2.0)
    }
}

#[test]
fn a_packed_weight_is_trained_if_the_dense_one_was() {
    let (dense, packed) = layers(64, 96, FloatType::F32);
    let checkpoint = |pattern: Pattern| {
        let weights = noise(64 * 96);
        let scores: Vec<f32> = weights.iter().map(|w| w.abs()).collect();
        let scores = Scores::new(64, 96, &scores).unwrap();
        let mask = pattern.project(&scores, 0.75, &Search::default()).unwrap().mask;
        let packed = Packed::pack(&pattern, &weights, &mask, None).unwrap();
        let (layer, float) = ("Linear".into(), FloatType::F32);
        let view = View::Linear { rows: 64, cols: 96 };
        let entry = PackedEntry { layer, view, pattern, packed, float, scales: None };
        let values = noise(64);
        let (layer, shape) = ("Linear".into(), vec![64]);
        let bias = Entry::Dense { layer, shape, values, float, scales: None };
        let entries = [("weight".to_string(), Entry::Packed(entry)), ("bias".to_string(), bias)];
        Checkpoint::from_entries(entries.into())
    };
    let is_trained = |layer: &Linear| layer.weight.base().is_require_grad();
    // Loaded on a plain device: trained from `train` on.
    assert!(!is_trained(&packed) && is_trained(&packed.clone().train()));
    let checkpoint = checkpoint(Pattern::balanced(32));
    let frozen = dense.no_grad();
    assert!(!is_trained(&checkpoint.load(frozen.clone()).unwrap().train()));
    // Loaded on a training device, also before the dense weight is initialized.
    let device = Device::flex().autodiff();
    let new = || LinearConfig::new(96, 64).init(&device);
    assert!(is_trained(&checkpoint.load(new()).unwrap()));
    assert!(!is_trained(&checkpoint.load(new().no_grad()).unwrap()));
    assert!(!is_trained(&checkpoint.load(frozen.train()).unwrap()));
}

#[test]
fn a_layer_too_small_for_a_sparse_kernel_runs_dense_and_follows_its_values() {
    let (dense, mut packed) = layers(5, 64, FloatType::F32);
    let x = Tensor::<2>::from_data(TensorData::new(noise(3 * 64), [3, 64]), &Device::flex());
    for _ in 0..2 {
        let (y, ran) = record_dispatch(|| packed.forward(x.clone()));
        assert!(ran[0].choice.to_string().starts_with("dense, because"), "{}", ran[0].choice);
        assert_close(&values(y), &values(dense.forward(x.clone())), 1e-5);
    }
    // The dense weight cached between calls must be invalidated when the packed values change.
    packed = packed.map(&mut Double);
    let doubled = dense.map(&mut Double);
    assert_close(&values(packed.forward(x.clone())), &values(doubled.forward(x)), 1e-5);
}

#[test]
fn two_byte_values_run_the_sparse_kernels_and_unpack_to_what_they_round_to() {
    for float in [FloatType::BF16, FloatType::F16] {
        // Large enough for a sparse kernel to be faster on any machine.
        let (dense, packed) = layers(1024, 1024, float);
        let x = Tensor::<2>::from_data(TensorData::new(noise(1024), [1, 1024]), &Device::flex());
        for activation in [Activation::None, Activation::Relu, Activation::Gelu] {
            let (y, ran) = record_dispatch(|| packed.forward_activated(x.clone(), activation));
            assert!(ran[0].choice.to_string().starts_with("flex-"), "{}", ran[0].choice);
            let expected = values(dense.forward_activated(x.clone(), activation));
            assert_close(&values(y), &expected, 0.02);
            let unpacked = burn::tensor::module::linear(
                x.clone(),
                packed.weight.val(),
                packed.bias.as_ref().map(Param::val),
            );
            let expected = values(activate(unpacked, activation));
            assert_close(&values(packed.forward_activated(x.clone(), activation)), &expected, 1e-5);
        }
    }
}
