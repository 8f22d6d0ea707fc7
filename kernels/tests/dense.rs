//! Tests of the dense operators between sparse layers against the same in Burn's operators.

use burn::tensor::activation::{silu, softmax};
use burn::tensor::module::linear;
use burn::tensor::{Bool, Device, Tensor, TensorData};
use burn_sparse_kernels::{Unseen, attention, dense_linear, gelu, rms_norm, rotary, swiglu};

fn noise<const D: usize>(seed: usize, shape: [usize; D], device: &Device) -> Tensor<D> {
    let value = |i: usize| ((i * 7919 + seed * 104_729) % 1009) as f32 / 100.0 - 5.0;
    let values: Vec<f32> = (0..shape.iter().product()).map(value).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn assert_close<const D: usize>(found: Tensor<D>, expected: Tensor<D>, what: &str) {
    assert_eq!(found.dims(), expected.dims(), "{what}");
    let size = expected.clone().abs().max().into_scalar::<f32>().max(1.0);
    let off = (found - expected).abs().max().into_scalar::<f32>();
    assert!(off <= 2e-6 * size, "{what}: {off} of {size}");
}

/// Returns attention by Burn's operators, with heads repeated and masks of pairs.
fn expected(query: &Tensor<4>, key: &Tensor<4>, value: &Tensor<4>, unseen: Unseen) -> Tensor<3> {
    let ([batch, heads, queries, d_head], [_, shared, keys, _]) = (query.dims(), key.dims());
    let repeat = |x: &Tensor<4>| {
        let x = x.clone().reshape([batch, shared, 1, keys * d_head]);
        x.repeat_dim(2, heads / shared).reshape([batch, heads, keys, d_head])
    };
    let mut scores = query.clone().matmul(repeat(key).transpose()) / (d_head as f64).sqrt();
    if let Some(padding) = unseen.padding {
        let padding = padding.clone().reshape([batch, 1, 1, keys]);
        scores = scores.mask_fill(padding, unseen.score);
    }
    if unseen.causal {
        let hidden = (0..queries).flat_map(|q| (0..keys).map(move |k| k > keys - queries + q));
        let hidden: Vec<bool> = hidden.collect();
        let data = TensorData::new(hidden, [1, 1, queries, keys]);
        let hidden = Tensor::<4, Bool>::from_data(data, &query.device());
        scores = scores.mask_fill(hidden, f32::NEG_INFINITY);
    }
    let context = softmax(scores, 3).matmul(repeat(value)).swap_dims(1, 2);
    context.reshape([batch, queries, heads * d_head])
}

#[test]
fn attention_is_that_of_burns_operators_whatever_the_shape() {
    let device = Device::flex();
    for (batch, heads, shared, queries, keys, d_head) in [
        (1, 1, 1, 1, 1, 1),
        (2, 3, 3, 5, 5, 31),
        (1, 6, 2, 1, 33, 8),
        (2, 4, 1, 7, 70, 32),
        (2, 4, 2, 3, 33, 65),
        (1, 9, 3, 4, 129, 64),
        (1, 2, 2, 130, 130, 17),
        (1, 9, 3, 65, 200, 64),
    ] {
        let query = noise(1, [batch, heads, queries, d_head], &device) / 3.0;
        let key = noise(2, [batch, shared, keys, d_head], &device) / 3.0;
        let value = noise(3, [batch, shared, keys, d_head], &device);
        let padded: Vec<bool> = (0..batch * keys).map(|at| at % keys > at / keys).collect();
        let padded = Tensor::from_data(TensorData::new(padded, [batch, keys]), &device);
        for (padding, causal) in [(None, false), (None, true), (Some(&padded), false)] {
            let unseen = Unseen { padding, score: -1e4, causal };
            let found = attention(&query, &key, &value, unseen).unwrap();
            let what = format!("{batch} {heads} {shared} {queries} {keys} {d_head} {causal}");
            assert_close(found, expected(&query, &key, &value, unseen), &what);
        }
    }
}

#[test]
fn heads_may_be_views_of_one_product() {
    let device = Device::flex();
    let (heads, d_head) = (4, 6);
    let product = noise(4, [2, 9, 3 * heads * d_head], &device);
    let all = product.reshape([2, 9, 3 * heads, d_head]);
    let part = |from: usize| all.clone().narrow(2, from, heads).swap_dims(1, 2);
    let [query, key, value] = [part(0), part(heads), part(2 * heads)];
    let unseen = Unseen { padding: None, score: 0.0, causal: false };
    let found = attention(&query, &key, &value, unseen).unwrap();
    assert_close(found, expected(&query, &key, &value, unseen), "views");
}

#[test]
fn gelu_and_its_gradient_are_burns_own() {
    for shape in [[1, 1], [3, 31], [4, 1024], [0, 7]] {
        let found = |ours: bool| {
            let device = Device::flex().autodiff();
            let x = noise(5, shape, &device).require_grad();
            let y = if ours { gelu(x.clone()) } else { burn::tensor::activation::gelu(x.clone()) };
            let grads = (y.clone() * noise(6, shape, &device)).sum().backward();
            (y.inner(), x.grad(&grads).unwrap())
        };
        let ((y, dx), (expected_y, expected_dx)) = (found(true), found(false));
        if shape[0] > 0 {
            assert_close(y.clone(), expected_y, "y");
            assert_close(dx, expected_dx, "dx");
            let plain = noise(5, shape, &Device::flex());
            assert_close(gelu(plain), y, "without autodiff");
        }
    }
}

#[test]
fn llamas_operators_are_those_of_burn() {
    let device = Device::flex();
    for width in [1, 31, 33, 576] {
        let x = noise(7, [2, 3, width], &device);
        let gamma = noise(8, [width], &device);
        let root = (x.clone().square().mean_dim(2) + 1e-5).sqrt();
        let expected = x.clone() / root * gamma.clone().reshape([1, 1, width]);
        assert_close(rms_norm(&x, &gamma, 1e-5).unwrap(), expected, "rms_norm");
        let both = noise(9, [2, 3, 2 * width], &device);
        let halves = [0, width].map(|from| both.clone().narrow(2, from, width));
        let [gate, value] = halves;
        assert_close(swiglu(&both).unwrap(), silu(gate) * value, "swiglu");
    }
}

#[test]
fn rotary_is_that_of_burns_operators_on_views_too() {
    let device = Device::flex();
    for (positions, d_head) in [(1, 2), (1, 64), (31, 6), (3, 66), (33, 128)] {
        let half = d_head / 2;
        let (heads, others) = (3, 2);
        let product = noise(10, [2, positions, heads + others, d_head], &device);
        let x = product.narrow(2, 0, heads).swap_dims(1, 2);
        let [cos, sin] = [11, 12].map(|seed| noise(seed, [positions, half], &device) / 5.0);
        let table = |table: &Tensor<2>| table.clone().reshape([1, 1, positions, half]);
        let (a, b) = (x.clone().narrow(3, 0, half), x.clone().narrow(3, half, half));
        let first = a.clone() * table(&cos) - b.clone() * table(&sin);
        let expected = Tensor::cat(vec![first, b * table(&cos) + a * table(&sin)], 3);
        assert_close(rotary(&x, &cos, &sin).unwrap(), expected, "rotary");
    }
}

fn linear_as_in_burn<const D: usize>(x: Tensor<D>, outputs: usize) {
    let device = x.device();
    let inputs = x.dims()[D - 1];
    let weight = noise(2, [inputs, outputs], &device) / 5.0;
    for bias in [None, Some(noise(3, [outputs], &device))] {
        let expected = linear(x.clone(), weight.clone(), bias.clone());
        let what = format!("{:?} to {outputs}", x.dims());
        let found = dense_linear(x.clone(), weight.clone(), bias.clone());
        assert_close(found, expected.clone(), &what);
        // A weight and a bias whose memory has another order.
        let turned = weight.clone().transpose().mul_scalar(1.0).transpose();
        let spread = bias.clone().map(|bias| {
            let twice: Tensor<2> = Tensor::stack(vec![bias.clone(), bias], 1);
            twice.narrow(1, 0, 1).reshape([outputs])
        });
        assert_close(dense_linear(x.clone(), turned, spread), expected, &what);
    }
}

#[test]
fn a_dense_layer_is_that_of_burn_whatever_its_shape_and_memory() {
    for device in [Device::flex(), Device::flex().autodiff()] {
        for (inputs, outputs) in [(1, 1), (31, 33), (7, 1), (1, 12), (129, 1000)] {
            linear_as_in_burn(noise(1, [inputs], &device), outputs);
            linear_as_in_burn(noise(1, [1, inputs], &device), outputs);
            linear_as_in_burn(noise(1, [9, inputs], &device), outputs);
            linear_as_in_burn(noise(1, [inputs, 9], &device).transpose(), outputs);
            linear_as_in_burn(noise(1, [2, inputs, 37], &device).swap_dims(1, 2), outputs);
            linear_as_in_burn(noise(1, [2, 3, 5, inputs], &device), outputs);
        }
    }
}

#[test]
fn a_dense_layer_of_no_tokens_or_no_outputs_is_that_of_burn() {
    let device = Device::flex();
    let zeros = |shape| Tensor::<2>::zeros(shape, &device);
    for (tokens, inputs, outputs) in [(0, 3, 2), (3, 2, 0)] {
        let (x, weight) = (zeros([tokens, inputs]), zeros([inputs, outputs]));
        let y = dense_linear(x, weight, None);
        assert_eq!(y.dims(), [tokens, outputs]);
    }
}
