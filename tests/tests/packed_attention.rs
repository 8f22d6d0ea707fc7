//! `burn_sparse::nn::MultiHeadAttention` matches burn-nn's layer if nothing is packed, and computes the same
//! function if it is packed.

use burn::module::Module;
use burn::nn::attention::{MhaInput, generate_autoregressive_mask};
use burn::tensor::{Bool, Device, Tensor, TensorData};
use burn_sparse::nn::{
    AttentionMask, MultiHeadAttention, MultiHeadAttentionConfig, record_dispatch,
};
use burn_sparse_tests::models::{one_shot, seeded};
use burn_sparse_tests::tensors::{close, input};

/// Returns every combination of masks that a layer accepts, for two samples of five positions.
fn masks(device: &Device) -> Vec<(&'static str, AttentionMask)> {
    let pad = [[false, false, false, true, true], [false; 5]];
    let pad = Tensor::<2, Bool>::from_data(TensorData::from(pad), device);
    let causal = generate_autoregressive_mask(2, 5, device);
    vec![
        ("none", AttentionMask::default()),
        ("padding", AttentionMask { pad: Some(pad.clone()), pairs: None }),
        ("causal", AttentionMask { pad: None, pairs: Some(causal.clone()) }),
        ("both", AttentionMask { pad: Some(pad), pairs: Some(causal) }),
    ]
}

fn masked(mut input: MhaInput, mask: &AttentionMask) -> MhaInput {
    if let Some(pad) = &mask.pad {
        input = input.mask_pad(pad.clone());
    }
    if let Some(pairs) = &mask.pairs {
        input = input.mask_attn(pairs.clone());
    }
    input
}

#[test]
fn with_burns_own_record_it_is_burns_own_attention_under_every_mask() {
    let device = Device::flex();
    let plain = || MultiHeadAttentionConfig::new(32, 4);
    let configs = [plain(), plain().with_quiet_softmax(true), plain().with_key_bias(false)];
    for config in configs {
        let stock = seeded(&device, 3, |device| config.init(device));
        let ours = MultiHeadAttention::new(&config, &device);
        let ours = ours.try_load_record(stock.clone().into_record()).unwrap();
        let (x, memory) = (input([2, 5, 32], &device), input([2, 5, 32], &device) * 0.7);
        for (name, mask) in masks(&device) {
            let expected = stock.forward(masked(MhaInput::self_attn(x.clone()), &mask));
            close(ours.self_attention(x.clone(), &mask), expected.context, name);
            let across = MhaInput::new(x.clone(), memory.clone(), memory.clone());
            let expected = stock.forward(masked(across, &mask));
            let found = ours.cross_attention(x.clone(), memory.clone(), &mask);
            close(found, expected.context, name);
        }
    }
}

#[derive(Module, Debug)]
struct Net {
    attention: MultiHeadAttention,
}

#[test]
fn packed_projections_run_as_one_matrix_and_give_what_masked_ones_give() {
    let trains = Device::flex().autodiff();
    let device = Device::flex();
    for keys in [
        "pattern = { kind = \"shfl-bw\", vector = 32 }",
        "pattern = { kind = \"balanced\", block = 16 }",
        "pattern = { kind = \"shfl-bw\", vector = 24 }",
    ] {
        let config = MultiHeadAttentionConfig::new(64, 4);
        let net = seeded(&trains, 9, |device| Net {
            attention: MultiHeadAttention::new(&config, device),
        });
        let pruned = one_shot(net, &format!("{keys}\nsparsity = 0.75"));
        let (packed, dense) = (pruned.pack().unwrap().valid(), pruned.model.valid());
        let x = input([2, 5, 64], &device);
        for (name, mask) in masks(&device) {
            let expected = dense.attention.self_attention(x.clone(), &mask);
            let forward = || packed.attention.self_attention(x.clone(), &mask);
            let (found, ran) = record_dispatch(forward);
            close(found, expected, &format!("{keys} {name}"));
            assert_eq!(ran.len(), 4, "{keys}");
            let expected = dense.attention.cross_attention(x.clone(), x.clone() * 0.5, &mask);
            let found = packed.attention.cross_attention(x.clone(), x.clone() * 0.5, &mask);
            close(found, expected, &format!("{keys} {name} across"));
        }
        let causal = generate_autoregressive_mask(2, 5, &device);
        let mask = AttentionMask { pad: None, pairs: Some(causal) };
        let expected = dense.attention.self_attention(x.clone(), &mask);
        let mut seen = None;
        let step = |at| x.clone().narrow(1, at, 1);
        let steps = (0..5).map(|at| packed.attention.self_attention_step(step(at), &mut seen));
        let found = Tensor::cat(steps.collect(), 1);
        close(found, expected, &format!("{keys} position by position"));
    }
}
