//! `burn_sparse::nn::MultiHeadAttention` matches burn-nn's layer if nothing is packed, and computes the same
//! function if it is packed.

use burn::module::Module;
use burn::nn::attention::{MhaInput as Stock, generate_autoregressive_mask};
use burn::tensor::{Bool, Device, Tensor, TensorData};
use burn_sparse::nn::attention::{
    AttentionMask, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig,
};
use burn_sparse::nn::record_dispatch;
use burn_sparse_tests::models::{one_shot, seeded, stock};
use burn_sparse_tests::tensors::{close, input};

/// Returns every combination of masks that a layer accepts, for two samples of five positions.
fn masks(device: &Device) -> Vec<(&'static str, AttentionMask)> {
    let pad = [[false, false, false, true, true], [false; 5]];
    let pad = Tensor::<2, Bool>::from_data(TensorData::from(pad), device);
    let causal = generate_autoregressive_mask(2, 5, device);
    vec![
        ("none", AttentionMask::default()),
        ("padding", AttentionMask { pad: Some(pad.clone()), attn: None }),
        ("causal", AttentionMask { pad: None, attn: Some(causal.clone()) }),
        ("both", AttentionMask { pad: Some(pad), attn: Some(causal) }),
    ]
}

/// Adds the masks to an input of Burn's layer or of ours.
macro_rules! masked {
    ($input:expr, $mask:expr) => {{
        let mut input = $input;
        if let Some(pad) = &$mask.pad {
            input = input.mask_pad(pad.clone());
        }
        if let Some(attn) = &$mask.attn {
            input = input.mask_attn(attn.clone());
        }
        input
    }};
}

#[test]
fn with_burns_own_record_it_is_burns_own_attention_under_every_mask() {
    let device = Device::flex();
    let plain = || MultiHeadAttentionConfig::new(32, 4);
    let configs = [plain(), plain().with_quiet_softmax(true), plain().with_key_bias(false)];
    for config in configs {
        let stock: burn::nn::attention::MultiHeadAttentionConfig = stock(&config);
        let stock = seeded(&device, 3, |device| stock.init(device));
        let ours = config.init(&device);
        let ours = ours.try_load_record(stock.clone().into_record()).unwrap();
        let (x, memory) = (input([2, 5, 32], &device), input([2, 5, 32], &device) * 0.7);
        for (name, mask) in masks(&device) {
            let expected = stock.forward(masked!(Stock::self_attn(x.clone()), mask));
            let found = ours.forward(masked!(MhaInput::self_attn(x.clone()), mask));
            close(found.context, expected.context, name);
            close(found.weights, expected.weights, name);
            let across = Stock::new(x.clone(), memory.clone(), memory.clone());
            let expected = stock.forward(masked!(across, mask));
            let across = MhaInput::new(x.clone(), memory.clone(), memory.clone());
            let found = ours.forward(masked!(across, mask));
            close(found.context, expected.context.clone(), name);
            let cache = ours.key_value_cache(memory.clone());
            close(ours.forward_cross(x.clone(), &cache, &mask), expected.context, name);
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
        let net = seeded(&trains, 9, |device| Net { attention: config.init(device) });
        let pruned = one_shot(net, &format!("{keys}\nsparsity = 0.75"));
        let (packed, dense) = (pruned.pack().valid(), pruned.model().valid());
        let x = input([2, 5, 64], &device);
        for (name, mask) in masks(&device) {
            let input = || masked!(MhaInput::self_attn(x.clone()), mask);
            let expected = dense.attention.forward(input()).context;
            let (found, ran) = record_dispatch(|| packed.attention.forward(input()).context);
            close(found, expected, &format!("{keys} {name}"));
            assert_eq!(ran.len(), 4, "{keys}");
            let memory = x.clone() * 0.5;
            let input = || masked!(MhaInput::new(x.clone(), memory.clone(), memory.clone()), mask);
            let expected = dense.attention.forward(input()).context;
            let found = packed.attention.forward(input()).context;
            close(found, expected, &format!("{keys} {name} across"));
        }
        let causal = generate_autoregressive_mask(2, 5, &device);
        let whole = MhaInput::self_attn(x.clone()).mask_attn(causal);
        let expected = dense.attention.forward(whole).context;
        let mut seen = None;
        let step = |at| x.clone().narrow(1, at, 1);
        let steps = (0..5).map(|at| packed.attention.forward_step(step(at), &mut seen));
        let found = Tensor::cat(steps.collect(), 1);
        close(found, expected, &format!("{keys} position by position"));
    }
}
