//! `burn_sparse::nn::Conv2d` matches burn-nn's layer if nothing is packed, and computes the same
//! function if it is packed.

use burn::module::Module;
use burn::nn::PaddingConfig2d;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{Device, Tensor};
use burn_sparse::checkpoint::{Checkpoint, ValueType};
use burn_sparse::nn::conv::{Conv2d, Conv2dConfig};
use burn_sparse::nn::{Activation, record_dispatch};
use burn_sparse::prelude::*;
use burn_sparse::train::Compute;
use burn_sparse_tests::models::{one_shot, seeded, stock};
use burn_sparse_tests::tensors::input;

#[derive(Module, Debug)]
struct Net {
    conv: Conv2d,
}

fn net(config: &Conv2dConfig) -> Net {
    let device = Device::flex().autodiff();
    seeded(&device, 7, |device| Net { conv: config.init(device) })
}

fn close<const D: usize>(found: Tensor<D>, expected: Tensor<D>, what: &str) {
    assert_eq!(found.dims(), expected.dims(), "{what}");
    let [found, expected] =
        [found, expected].map(|tensor| tensor.into_data().try_into_vec::<f32>().unwrap());
    for (found, expected) in found.iter().zip(&expected) {
        let close = (found - expected).abs() < 1e-5 * (1.0 + expected.abs());
        assert!(close, "{what}: {found} instead of {expected}");
    }
}

const PATTERNS: [&str; 4] = [
    "pattern = { kind = \"shfl-bw\", vector = 8 }",
    "pattern = { kind = \"balanced\", block = 9 }",
    "pattern = { kind = \"block-wise\", block = 4 }",
    "pattern = { kind = \"unstructured\" }",
];

/// Returns convolution configurations with the height and width of the input.
fn geometries() -> Vec<(Conv2dConfig, [usize; 2])> {
    let config = |channels, kernel| Conv2dConfig::new(channels, kernel);
    let explicit = PaddingConfig2d::Explicit;
    vec![
        (config([4, 16], [3, 3]).with_padding(explicit(1, 1, 1, 1)), [8, 8]),
        (config([5, 12], [3, 3]).with_stride([2, 2]).with_padding(explicit(1, 1, 1, 1)), [7, 9]),
        (config([3, 31], [5, 3]).with_padding(explicit(2, 0, 1, 3)), [6, 5]),
        (config([6, 8], [1, 1]), [5, 3]),
        (config([33, 16], [1, 1]).with_stride([2, 3]), [4, 7]),
        (config([4, 24], [3, 3]).with_dilation([2, 3]), [9, 11]),
        (config([4, 16], [2, 4]).with_padding(PaddingConfig2d::Same), [6, 5]),
        (config([4, 16], [3, 3]).with_stride([3, 2]).with_padding(PaddingConfig2d::Same), [8, 7]),
        // Windows that cover only padding, and images of one row or column.
        (config([4, 16], [2, 2]).with_padding(explicit(3, 4, 2, 3)), [1, 1]),
        (config([9, 8], [1, 3]).with_padding(explicit(0, 1, 0, 1)), [1, 40]),
        (config([9, 8], [3, 1]).with_stride([2, 1]).with_padding(explicit(1, 0, 1, 0)), [33, 1]),
    ]
}

#[test]
fn with_burns_own_record_it_is_burns_own_convolution() {
    let device = Device::flex();
    for (config, [height, width]) in geometries() {
        let stock: burn::nn::conv::Conv2dConfig = stock(&config);
        let stock = seeded(&device, 3, |device| stock.init(device));
        let ours = config.init(&device);
        let ours = ours.try_load_record(stock.clone().into_record()).unwrap();
        let x = input([2, config.channels[0], height, width], &device);
        close(ours.forward(x.clone()), stock.forward(x), &format!("{config:?}"));
    }
}

#[test]
fn packed_kernels_give_what_masked_ones_give_whatever_the_geometry() {
    let device = Device::flex();
    for (config, [height, width]) in geometries() {
        for keys in PATTERNS {
            let pruned = one_shot(net(&config), &format!("{keys}\nsparsity = 0.75"));
            let (masked, packed) = (pruned.model().valid(), pruned.pack());
            // Layers this small may run dense; on a training device a sparse kernel always runs.
            // `kernels/tests/conv2d.rs` tests the kernels themselves.
            for (batch, activation) in
                [(1, Activation::None), (9, Activation::Relu), (70, Activation::Gelu)]
            {
                let what = format!("{keys} {config:?} {batch}");
                let x = input([batch, config.channels[0], height, width], &device);
                let expected = masked.conv.forward_activated(x.clone(), activation);
                let forward = || packed.valid().conv.forward_activated(x.clone(), activation);
                let (found, ran) = record_dispatch(forward);
                assert_eq!(ran.len(), 1, "{what}");
                let [_, _, down, across] = found.dims();
                assert_eq!(ran[0].input.tokens(), batch * down * across, "{what}");
                close(found, expected.clone(), &what);
                let trained =
                    input([batch, config.channels[0], height, width], &device.clone().autodiff());
                let (found, ran) =
                    record_dispatch(|| packed.conv.forward_activated(trained, activation));
                assert!(ran[0].choice.to_string().starts_with("flex-"), "{what}");
                close(found.inner(), expected, &what);
            }
        }
    }
}

#[test]
fn packed_kernels_pass_the_gradient_of_masked_ones_on() {
    let device = Device::flex().autodiff();
    for (config, [height, width]) in geometries() {
        let pruned = one_shot(net(&config), &format!("{}\nsparsity = 0.5", PATTERNS[0]));
        let packed = pruned.pack();
        let gradient = |model: &Net| {
            let x = input([2, config.channels[0], height, width], &device).require_grad();
            let grads = model.conv.forward(x.clone()).powi_scalar(2).sum().backward();
            let bias = model.conv.bias.as_ref().unwrap().val();
            (x.grad(&grads).unwrap(), bias.grad(&grads).unwrap())
        };
        let ((x1, b1), (x2, b2)) = (gradient(&packed), gradient(pruned.model()));
        close(x1, x2, &format!("{config:?}"));
        close(b1, b2, &format!("{config:?}"));
    }
}

#[test]
fn packed_training_has_the_values_of_masked_training() {
    let device = Device::flex().autodiff();
    for (config, [height, width]) in geometries() {
        for pattern in [Pattern::shfl_bw(8), Pattern::balanced(4), Pattern::unstructured()] {
            let model = net(&config);
            let what = format!("{pattern} {config:?}");
            let trained = |compute| {
                let ramp = Ramp::cubic(Steps(6)).with_every(Steps(2));
                let pruning = PruneConfig::new(pattern, 0.75).with_ramp(ramp);
                let plan = Plan::new(&pruning, &model, Horizon::steps(40)).unwrap();
                let mut sparse = plan.attach(model.clone()).unwrap().with_compute(compute);
                let momentum = MomentumConfig { momentum: 0.9, ..MomentumConfig::new() };
                let mut optimizer = SgdConfig::new().with_momentum(Some(momentum)).init();
                for _ in 0..40 {
                    let x = input([19, config.channels[0], height, width], &device);
                    let loss = (sparse.inner().conv.forward(x) - 0.5).powi_scalar(2).mean();
                    let grads = GradientsParams::from_grads(loss.backward(), sparse.inner());
                    sparse = sparse.optimizer_step(&mut optimizer, 1e-2, grads);
                }
                let packed = sparse.is_packed();
                (packed, sparse.unpack(&mut optimizer).unwrap().inner().conv.clone())
            };
            let (masked, packed) = (trained(Compute::Masked), trained(Compute::Packed));
            // Balanced rows are padded to 16: of eight rows, half the weights are stored, which are too many.
            let many = pattern == Pattern::balanced(4) && config.channels[1] < 12;
            assert_eq!([masked.0, packed.0], [false, !many], "{what}");
            close(packed.1.weight.val(), masked.1.weight.val(), &what);
            close(packed.1.bias.unwrap().val(), masked.1.bias.unwrap().val(), &what);
        }
    }
}

#[test]
fn convolutions_in_groups_run_dense_and_say_why() {
    let config = Conv2dConfig::new([16, 16], [3, 3]).with_groups(2);
    let pruned = one_shot(net(&config), &format!("{}\nsparsity = 0.5", PATTERNS[0]));
    let x = input([2, 16, 6, 6], &Device::flex());
    let expected = pruned.model().valid().conv.forward(x.clone());
    let packed = pruned.pack().valid();
    let (found, ran) = record_dispatch(|| packed.conv.forward(x));
    close(found, expected, "in groups");
    let said = ran[0].choice.to_string();
    assert_eq!(said, "dense, because no sparse kernel supports convolutions with several groups");
}

#[test]
fn weights_stored_in_8_bits_run_in_floats_near_those_before() {
    let device = Device::flex();
    let near = |found: Tensor<4>, expected: Tensor<4>, what: &str| {
        assert_eq!(found.dims(), expected.dims(), "{what}");
        let largest = expected.clone().abs().max().into_scalar::<f32>();
        let off = (found - expected).abs().max().into_scalar::<f32>();
        assert!(off <= 0.05 * largest, "{what}: off by {off} of {largest}");
    };
    for (config, [height, width]) in geometries() {
        let dense = net(&config).valid();
        let mut forms = vec![("dense", dense.clone(), Checkpoint::of_dense(&dense))];
        for keys in PATTERNS {
            let pruned = one_shot(net(&config), &format!("{keys}\nsparsity = 0.75"));
            forms.push((keys, pruned.model().valid(), pruned.checkpoint()));
        }
        for (keys, masked, checkpoint) in forms {
            let checkpoint = checkpoint.with_values(ValueType::Int4).unwrap();
            // Convolutions are stored in 8 bits where linear layers are in 4.
            assert_eq!(checkpoint.entries()["conv.weight"].value_type(), ValueType::Int8);
            let rounded = checkpoint.load(dense.clone()).unwrap();
            let [channels, outputs] = config.channels;
            let shown = format!("ch_in: {channels}, ch_out: {outputs}");
            assert!(format!("{}", rounded.conv).contains(&shown), "{}", rounded.conv);
            for (batch, activation) in
                [(1, Activation::None), (9, Activation::Relu), (2, Activation::Gelu)]
            {
                let what = format!("{keys} {config:?} {batch}");
                let x = input([batch, channels, height, width], &device);
                let expected = masked.conv.forward_activated(x.clone(), activation);
                let forward = || rounded.conv.forward_activated(x, activation);
                let (found, ran) = record_dispatch(forward);
                assert!(ran.iter().all(|ran| !ran.choice.to_string().contains("int8")), "{what}");
                near(found, expected, &what);
            }
            // Anything else reads the rounded floats.
            near(rounded.conv.weight.val(), masked.conv.weight.val(), keys);
        }
    }
}
