//! Checks every portable kernel against a float64 product, on awkward shapes and on whichever runtime is built in.

#![cfg(any(feature = "wgpu", feature = "cuda"))]

mod support;

use burn_sparse_cube::entries::{gather, scatter};
use burn_sparse_cube::masked::masked;
use burn_sparse_cube::transpose::{Shape, pitch, transpose};
use burn_sparse_cube::{Activation, Buffer, Call, Major, Operands, Store};
use cubecl::prelude::*;
use half::f16;
use support::{Case, Number, client, noise};

const PATTERNS: [&str; 10] = [
    "balanced(block=32)",
    "balanced(block=7)",
    "balanced(block=16)",
    "vector-wise(vector=16)",
    "shfl-bw(vector=32)",
    "shfl-bw(vector=8,equal_groups=false)",
    "shfl-bw(vector=5)",
    "block-wise(block=16)",
    "unstructured",
    "hinm(vector=8,keep=2,of=4)",
];

const SHAPES: [(usize, usize); 7] =
    [(1, 1), (1, 33), (31, 1), (33, 31), (64, 64), (97, 130), (40, 257)];

fn every_case_agrees<F: Number>() {
    let client = client();
    let mut seen = 0;
    for text in PATTERNS {
        for (rows, cols) in SHAPES {
            let Some(case) = Case::new::<F>(&client, text, rows, cols, 0.75) else { continue };
            for tokens in [1, 3, 8, 16, 17, 64, 101] {
                for finish in
                    [(false, Activation::None), (true, Activation::Relu), (true, Activation::Gelu)]
                {
                    case.check::<F>(&client, tokens, finish, |call| case.decode(call, None));
                    case.check::<F>(&client, tokens, finish, |call| case.forward(call));
                    seen += 2;
                }
            }
        }
    }
    assert!(seen > 1000, "only {seen} cases ran");
}

#[test]
fn every_kernel_agrees_with_a_float64_product_in_f32() {
    every_case_agrees::<f32>();
}

#[test]
fn every_kernel_agrees_with_a_float64_product_in_f16() {
    let client = client();
    let f16_type = f16::elem();
    if !client.properties().supports_type(Type::new(f16_type)) {
        println!("this device has no f16");
        return;
    }
    every_case_agrees::<f16>();
}

#[test]
#[cfg(feature = "cuda")]
fn every_kernel_agrees_with_a_float64_product_in_bf16() {
    every_case_agrees::<half::bf16>();
}

#[test]
fn slices_of_a_product_add_up_to_it() {
    let client = client();
    for text in PATTERNS {
        for (rows, cols) in [(33, 31), (97, 130)] {
            let Some(case) = Case::new::<f32>(&client, text, rows, cols, 0.75) else { continue };
            for (tokens, slices) in [(1, 2), (3, 5), (17, 3)] {
                case.check::<f32>(&client, tokens, (true, Activation::Relu), |call| {
                    case.decode(call, Some(slices));
                });
            }
        }
    }
}

#[test]
fn activations_may_lie_features_major() {
    let client = client();
    for text in PATTERNS {
        for (rows, cols) in SHAPES {
            let Some(case) = Case::new::<f32>(&client, text, rows, cols, 0.75) else { continue };
            for tokens in [1, 8, 31, 101] {
                case.check_majors::<f32>(&client, tokens, |call| case.forward(call));
            }
        }
    }
}

#[test]
fn nan_passes_through_a_fused_activation() {
    let client = client();
    for text in ["shfl-bw(vector=32)", "balanced(block=32)", "unstructured"] {
        let case = Case::new::<f32>(&client, text, 64, 64, 0.5).unwrap();
        for tokens in [1, 40] {
            let x = Buffer::of(&client, &vec![f32::NAN; tokens * 64]);
            let y = Buffer::of(&client, &vec![0.0_f32; tokens * 64]);
            let operands = Operands { x, ..case.operands.clone() };
            for activation in [Activation::Relu, Activation::Gelu] {
                let (dtype, store) = (f32::elem(), Store { bias: false, activation });
                let client = &client;
                let (x_major, y_major) = (Major::Tokens, Major::Tokens);
                let call = Call {
                    client,
                    dtype,
                    operands: &operands,
                    y: &y,
                    tokens,
                    x_major,
                    y_major,
                    store,
                };
                if tokens == 1 {
                    case.decode(&call, None)
                } else {
                    case.forward(&call)
                }
                assert!(f32::read(client, &y).iter().all(|y| y.is_nan()), "{text} {tokens}");
            }
        }
    }
}

fn transposing_agrees<F: Number>() {
    let client = client();
    if !client.properties().supports_type(Type::new(F::elem())) {
        println!("this device has no {:?}", F::elem());
        return;
    }
    let shapes = [(1, 1), (31, 33), (64, 64), (7, 100), (40, 72), (200, 36), (67, 136), (130, 70)];
    for (tokens, features) in shapes {
        let x = F::all(&noise(tokens * features, 1));
        let wide = pitch(tokens);
        let y = Buffer::of(&client, &F::all(&vec![f32::NAN; features * wide]));
        let there = Shape::to_features_major(tokens, features);
        transpose(&client, F::elem(), &Buffer::of(&client, &x), &y, there);
        let x = F::back(&x);
        let found = F::read(&client, &y);
        for feature in 0..features {
            for token in 0..wide {
                let expected = if token < tokens { x[token * features + feature] } else { 0.0 };
                assert_eq!(found[feature * wide + token], expected, "{tokens}x{features}");
            }
        }
        let back = Buffer::of(&client, &F::all(&vec![f32::NAN; tokens * features]));
        let shape = Shape::to_tokens_major(tokens, features);
        transpose(&client, F::elem(), &y, &back, shape);
        assert_eq!(F::read(&client, &back), x, "{tokens}x{features}");
    }
}

#[test]
fn transposing_gives_features_major_rows_padded_with_zeros_and_back() {
    transposing_agrees::<f32>();
}

#[test]
fn transposing_numbers_of_two_bytes_gives_features_major_rows_padded_with_zeros_and_back() {
    transposing_agrees::<f16>();
}

#[test]
fn scattered_values_are_the_unpacked_matrix() {
    let client = client();
    for text in PATTERNS {
        for (rows, cols) in SHAPES {
            let Some(case) = Case::new::<f32>(&client, text, rows, cols, 0.75) else { continue };
            let dense = Buffer::of(&client, &vec![0.0_f32; rows * cols]);
            scatter(&client, f32::elem(), case.family, &case.operands, &dense);
            assert_eq!(f32::read(&client, &dense), case.dense, "{text} {rows}x{cols}");
        }
    }
}

#[test]
fn gathered_values_are_those_of_the_matrix_at_the_kept_entries() {
    let client = client();
    for text in PATTERNS {
        for (rows, cols) in SHAPES {
            let Some(case) = Case::new::<f32>(&client, text, rows, cols, 0.75) else { continue };
            let matrix = noise(rows * cols, 3);
            let count = case.operands.values.len;
            let values = Buffer::of(&client, &vec![f32::NAN; count]);
            let from = Buffer::of(&client, &matrix);
            gather(&client, f32::elem(), case.family, &case.operands, &from, &values);
            // The layout's padding is zero, and the rest unpacks to the masked matrix.
            let padding = f32::read(&client, &values).iter().filter(|value| **value == 0.0).count();
            let kept = case.kept.iter().filter(|kept| **kept).count();
            assert_eq!(padding, count - kept, "{text} {rows}x{cols}");
            let dense = Buffer::of(&client, &vec![0.0_f32; rows * cols]);
            let operands = Operands { values, ..case.operands.clone() };
            scatter(&client, f32::elem(), case.family, &operands, &dense);
            for (at, found) in f32::read(&client, &dense).iter().enumerate() {
                let expected = if case.kept[at] { matrix[at] } else { 0.0 };
                assert_eq!(*found, expected, "{text} {rows}x{cols} {at}");
            }
        }
    }
}

#[test]
fn masking_drops_what_the_bytes_drop_even_infinities() {
    let client = client();
    for len in [1, 3, 4, 257, 70_001] {
        let mut weight = noise(len, 1);
        weight[len / 2] = f32::INFINITY;
        let mask: Vec<u8> = (0..len).map(|i| u8::from(i % 3 == 1)).collect();
        let words: Vec<u32> = mask
            .chunks(4)
            .map(|four| four.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte)))
            .collect();
        let mut mask_buffer = Buffer::of(&client, &words);
        mask_buffer.len = len;
        let out = Buffer::of(&client, &vec![f32::NAN; len]);
        masked(&client, f32::elem(), &Buffer::of(&client, &weight), &mask_buffer, &out);
        for (i, out) in f32::read(&client, &out).iter().enumerate() {
            assert_eq!(*out, if mask[i] == 1 { weight[i] } else { 0.0 }, "{i} of {len}");
        }
    }
}
