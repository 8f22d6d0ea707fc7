//! `burn_sparse::nn::PositionWiseFeedForward` matches burn-nn's layer if nothing is packed, and computes the same
//! function if it is packed.

use burn::module::Module;
use burn::nn::PReluConfig;
use burn::nn::activation::ActivationConfig;
use burn::tensor::{Device, Tensor};
use burn_sparse::nn::record_dispatch;
use burn_sparse::nn::transformer::{PositionWiseFeedForward, PositionWiseFeedForwardConfig};
use burn_sparse_tests::models::{one_shot, seeded, stock};
use burn_sparse_tests::tensors::{close, input};

fn configs() -> Vec<PositionWiseFeedForwardConfig> {
    let config = PositionWiseFeedForwardConfig::new(32, 64);
    let kinds = [
        ActivationConfig::Gelu,
        ActivationConfig::GeluApproximate,
        ActivationConfig::Relu,
        ActivationConfig::Tanh,
        // One slope for each position.
        ActivationConfig::PRelu(PReluConfig::new().with_num_parameters(5)),
    ];
    kinds.map(|kind| config.clone().with_activation(kind)).to_vec()
}

#[test]
fn with_burns_own_record_it_is_burns_own_feed_forward_with_every_activation() {
    let device = Device::flex();
    for config in configs() {
        let stock: burn::nn::transformer::PositionWiseFeedForwardConfig = stock(&config);
        let stock = seeded(&device, 3, |device| stock.init(device));
        let ours = config.init(&device);
        let ours = ours.try_load_record(stock.clone().into_record()).unwrap();
        assert_eq!(format!("{ours}"), format!("{stock}"));
        let what = format!("{:?}", config.activation);
        let x = input([2, 5, 32], &device);
        close(ours.forward(x.clone()), stock.forward(x), &what);
        // Slopes for five positions cannot be applied to other shapes.
        if !matches!(config.activation, ActivationConfig::PRelu(_)) {
            let x = input([32], &device);
            close(ours.forward(x.clone()), stock.forward(x), &what);
            assert_eq!(ours.forward(Tensor::<2>::zeros([0, 32], &device)).dims(), [0, 32]);
            assert_eq!(ours.forward(Tensor::<3>::zeros([2, 0, 32], &device)).dims(), [2, 0, 32]);
        }
    }
}

#[derive(Module, Debug)]
struct Net {
    layers: PositionWiseFeedForward,
}

#[test]
fn packed_layers_give_what_masked_ones_give_and_tell_what_ran() {
    let (trains, device) = (Device::flex().autodiff(), Device::flex());
    for keys in [
        "pattern = { kind = \"shfl-bw\", vector = 32 }",
        "pattern = { kind = \"balanced\", block = 16 }",
    ] {
        for config in configs() {
            let init = |device: &_| Net { layers: config.init(device) };
            let net = seeded(&trains, 9, init);
            let pruned = one_shot(net, &format!("{keys}\nsparsity = 0.75"));
            let (packed, dense) = (pruned.pack().valid(), pruned.model().valid());
            let positions = matches!(config.activation, ActivationConfig::PRelu(_));
            for tokens in if positions { vec![5] } else { vec![1, 5, 70] } {
                let x = input([2, tokens, 32], &device);
                let expected = dense.layers.forward(x.clone());
                let (found, ran) = record_dispatch(|| packed.layers.forward(x));
                close(found, expected, &format!("{keys} {:?} {tokens}", config.activation));
                let weights = [&packed.layers.linear_inner, &packed.layers.linear_outer];
                let weights = weights.map(|layer| layer.weight.id).to_vec();
                let ran: Vec<_> = ran.iter().map(|ran| ran.weight).collect();
                assert_eq!(ran, weights, "{keys}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "axis 2 expected 32, got 31")]
fn inputs_of_other_features_are_refused() {
    let device = Device::flex();
    let layers = configs()[0].init(&device);
    let _ = layers.forward(input([1, 5, 31], &device));
}
