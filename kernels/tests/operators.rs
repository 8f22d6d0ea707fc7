//! Tests of every kernel against a float64 reference, on awkward shapes, through Burn's dispatch.

use burn::tensor::{DType, Device, FloatDType, Tensor};
use burn_sparse_kernels::{
    Activation, Choice, KernelName, PackedTensors, select, sparse_linear,
    sparse_linear_features_major, sparse_linear_with,
};
use burn_sparse_pattern::{Mask, Packed, Pattern};

mod support;

use support::{Case, case, devices, map_values, noise, tensor, values};

const PATTERNS: [&str; 10] = [
    "unstructured",
    "balanced(block=32)",
    "balanced(block=7)",
    "balanced(block=16)",
    "vector-wise(vector=16)",
    "shfl-bw(vector=32)",
    "shfl-bw(vector=8,equal_groups=false)",
    "shfl-bw(vector=5)",
    "hinm(vector=8,keep=2,of=4)",
    "block-wise(block=16)",
];

const SHAPES: [(usize, usize); 8] =
    [(1, 1), (1, 33), (31, 1), (33, 31), (64, 64), (97, 130), (40, 257), (128, 96)];

#[test]
fn every_layout_agrees_with_a_float64_product_for_every_batch() {
    for device in devices() {
        let mut seen = 0;
        for text in PATTERNS {
            for (rows, cols) in SHAPES {
                let Some(case) = case(text, rows, cols, 0.75, &device) else {
                    continue;
                };
                for n in [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 48, 64, 65, 100, 193] {
                    let (x, bias) = (noise(n * cols, 3), noise(rows, 5));
                    for activation in [Activation::None, Activation::Relu, Activation::Gelu] {
                        let y = sparse_linear(
                            tensor(&x, [n, cols], &device),
                            &case.packed,
                            Some(tensor(&bias, [rows], &device)),
                            activation,
                        );
                        assert_close(&values(y), &case, &x, &bias, activation, text, n);
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen > 1000, "only {seen} cases ran");
    }
}

fn assert_close(
    y: &[f32],
    case: &Case,
    x: &[f32],
    bias: &[f32],
    activation: Activation,
    text: &str,
    n: usize,
) {
    for token in 0..n {
        for row in 0..case.rows {
            let (mut sum, mut size) = (f64::from(bias[row]), 0.0);
            for col in 0..case.cols {
                let term = f64::from(case.dense[row * case.cols + col])
                    * f64::from(x[token * case.cols + col]);
                sum += term;
                size += term.abs();
            }
            let expected = match activation {
                Activation::None => sum,
                Activation::Relu => sum.max(0.0),
                Activation::Gelu => 0.5 * sum * (1.0 + libm::erf(sum / 2.0_f64.sqrt())),
            };
            let found = f64::from(y[token * case.rows + row]);
            assert!(
                (found - expected).abs() <= 1e-6 * (1.0 + size),
                "{text} {}x{} n={n} token {token} row {row}: {found} instead of {expected}",
                case.rows,
                case.cols,
            );
        }
    }
}

#[test]
fn weights_run_on_a_device_they_are_moved_to() {
    for device in devices() {
        for text in PATTERNS {
            let mut case = case(text, 40, 257, 0.75, &Device::flex()).unwrap();
            let shape = (case.packed.rows(), case.packed.cols());
            let (layout, values_there, indices, checked) = case.packed.into_parts();
            let values_here = values_there.to_device(&device);
            let indices = indices.map(|index| index.to_device(&device));
            case.packed = PackedTensors::from_parts(shape, layout, values_here, indices, checked);
            for n in [1, 65] {
                let (x, bias) = (noise(n * 257, 3), noise(40, 5));
                let y = sparse_linear(
                    tensor(&x, [n, 257], &device),
                    &case.packed,
                    Some(tensor(&bias, [40], &device)),
                    Activation::None,
                );
                assert_close(&values(y), &case, &x, &bias, Activation::None, text, n);
            }
        }
    }
}

#[test]
fn weights_of_two_bytes_are_widened_exactly() {
    let device = Device::flex();
    for dtype in [FloatDType::BF16, FloatDType::F16] {
        let mut seen = 0;
        for text in PATTERNS {
            for (rows, cols) in SHAPES {
                let Some(mut case) = case(text, rows, cols, 0.75, &device) else { continue };
                case.packed = case.packed.cast(dtype);
                // The reference must use the weights as rounded by the cast.
                case.dense = case.packed.to_packed().unwrap().unpack();
                for n in [1, 2, 7, 8, 9, 33, 70] {
                    let (x, bias) = (noise(n * cols, 3), noise(rows, 5));
                    let y = sparse_linear(
                        tensor(&x, [n, cols], &device),
                        &case.packed,
                        Some(tensor(&bias, [rows], &device)),
                        Activation::None,
                    );
                    assert_close(&values(y), &case, &x, &bias, Activation::None, text, n);
                    seen += 1;
                }
            }
        }
        assert!(seen > 300, "only {seen} cases ran");
    }
}

#[test]
fn weights_of_two_bytes_pass_gradients_on_and_get_their_own_in_their_type() {
    let device = Device::flex().autodiff();
    let case = case("shfl-bw(vector=32)", 64, 64, 0.75, &device).unwrap();
    let packed = case.packed.cast(FloatDType::BF16);
    let packed = map_values(packed, |values| values.detach().require_grad());
    let dense = packed.to_packed().unwrap().unpack();
    let dense = tensor(&dense, [64, 64], &device);
    let x = tensor(&noise(5 * 64, 3), [5, 64], &device).require_grad();
    let y = sparse_linear(x.clone(), &packed, None, Activation::None);
    let sparse = y.sum().backward();
    let reference = x.clone().matmul(dense.transpose()).sum().backward();
    let (found, expected) = (x.grad(&sparse).unwrap(), x.grad(&reference).unwrap());
    for (found, expected) in values(found).iter().zip(values(expected)) {
        assert!((found - expected).abs() < 1e-4, "{found} {expected}");
    }
    assert_eq!(packed.values().grad(&sparse).unwrap().dtype(), DType::BF16);
}

/// Returns a sparsity at which every row keeps weights: hinm's inner pattern alone drops half.
fn sparsity(text: &str) -> f64 {
    if text.starts_with("hinm") { 0.75 } else { 0.5 }
}

#[test]
fn gradients_agree_with_those_of_the_dense_layer() {
    let cpu = Device::flex().autodiff();
    for device in devices() {
        let device = device.autodiff();
        for text in PATTERNS {
            for (rows, cols, n) in [(33, 31, 5), (64, 64, 20), (40, 257, 3)] {
                let case = case(text, rows, cols, sparsity(text), &device).unwrap();
                // The dense layer runs on the CPU: with low-precision products, a sum near zero may change its sign,
                // and ReLU would wrongly pass or block a gradient.
                let inputs = |device: &Device| {
                    let x = tensor(&noise(n * cols, 3), [n, cols], device).require_grad();
                    let bias = tensor(&noise(rows, 5), [rows], device).require_grad();
                    (x, bias, tensor(&noise(n * rows, 9), [n, rows], device))
                };
                let (x, bias, dy) = inputs(&device);
                let packed = map_values(case.packed.clone(), Tensor::require_grad);
                let y = sparse_linear(x.clone(), &packed, Some(bias.clone()), Activation::Relu);
                let sparse = (y * dy).sum().backward();

                let (dense_x, dense_bias, dy) = inputs(&cpu);
                let dense = tensor(&case.dense, [rows, cols], &cpu).require_grad();
                let y = dense_x.clone().matmul(dense.clone().transpose())
                    + dense_bias.clone().unsqueeze();
                let reference = (burn::tensor::activation::relu(y) * dy).sum().backward();

                // On CUDA, Burn's dense f32 products use TF32, with ten bits of mantissa.
                let tf32 = cfg!(feature = "cuda") && device.clone().inner() != Device::flex();
                let most = if tf32 { 1e-2 } else { 1e-4 };
                let close = |a: Vec<f32>, b: Vec<f32>, what: &str| {
                    assert_eq!(a.len(), b.len());
                    for (i, (a, b)) in a.iter().zip(&b).enumerate() {
                        assert!(
                            (a - b).abs() < most * (1.0 + b.abs()),
                            "{text} {what}[{i}]: {a} {b}"
                        );
                    }
                };
                let expected = values(dense_x.grad(&reference).unwrap());
                close(values(x.grad(&sparse).unwrap()), expected, "dx");
                let expected = values(dense_bias.grad(&reference).unwrap());
                close(values(bias.grad(&sparse).unwrap()), expected, "db");
                // The packed gradient, substituted for the values, unpacks to the masked dense gradient.
                let packed = map_values(packed, |values| values.grad(&sparse).unwrap());
                let packed = packed.to_packed().unwrap();
                let mask = packed.mask().to_bytes();
                let expected: Vec<f32> = values(dense.grad(&reference).unwrap())
                    .iter()
                    .zip(mask)
                    .map(|(g, keep)| g * f32::from(keep))
                    .collect();
                close(packed.unpack(), expected, "dw");
            }
        }
    }
}

#[test]
fn one_kept_column_is_enough() {
    for device in devices() {
        // Patterns, and the number of rows that share the one column they keep.
        for (text, vector) in [
            ("unstructured", 1),
            ("balanced(block=100)", 1),
            ("vector-wise(vector=16)", 16),
            ("vector-wise(vector=5)", 5),
        ] {
            let (rows, cols) = (37, 100);
            let pattern: Pattern = text.parse().unwrap();
            let mask = Mask::from_fn(rows, cols, |r, c| c == r / vector * 7 % cols).unwrap();
            let packed = Packed::pack(&pattern, &noise(rows * cols, 1), &mask, None).unwrap();
            let dense = packed.unpack();
            let packed = PackedTensors::from_packed(&packed, &device);
            let case = Case { packed, dense, rows, cols };
            for n in [1, 5, 20, 70] {
                let (x, bias) = (noise(n * cols, 3), noise(rows, 5));
                let y = sparse_linear(
                    tensor(&x, [n, cols], &device),
                    &case.packed,
                    Some(tensor(&bias, [rows], &device)),
                    Activation::Gelu,
                );
                assert_close(&values(y), &case, &x, &bias, Activation::Gelu, text, n);
            }
        }
    }
}

#[test]
fn packed_tensors_return_the_matrix_they_were_made_from() {
    for device in devices() {
        for text in PATTERNS {
            for (rows, cols) in SHAPES {
                if let Some(case) = case(text, rows, cols, 0.75, &device) {
                    assert_eq!(case.packed.to_packed().unwrap().unpack(), case.dense, "{text}");
                }
            }
        }
        // Kernels merge blocks of up to 16 columns: these cases merge past the width of the matrix.
        for (block, cols) in [(2, 4), (4, 20), (16, 17)] {
            let mask = Mask::from_fn(3, cols, |_, col| col % 2 == 0).unwrap();
            let packed = Packed::pack(&Pattern::balanced(block), &noise(3 * cols, 2), &mask, None);
            let packed = packed.unwrap();
            let found = PackedTensors::from_packed(&packed, &device).to_packed().unwrap();
            assert_eq!(found.unpack(), packed.unpack(), "balanced({block}), {cols} columns");
        }
    }
}

#[test]
fn empty_groups_and_empty_rows_give_the_bias() {
    for device in devices() {
        let (rows, cols) = (64, 40);
        for (text, keep) in [
            ("unstructured", 0),
            ("vector-wise(vector=32,equal_groups=false)", 32),
            ("block-wise(block=32)", 32),
            ("unstructured", 63),
        ] {
            let pattern: Pattern = text.parse().unwrap();
            // Only rows below `keep` have kept weights, and only in the first 32 columns.
            let mask = Mask::from_fn(rows, cols, |r, c| r < keep && c < 32).unwrap();
            let packed = Packed::pack(&pattern, &noise(rows * cols, 1), &mask, None).unwrap();
            let packed = PackedTensors::from_packed(&packed, &device);
            let bias = noise(rows, 5);
            for n in [1, 5, 20, 70] {
                let x = tensor(&noise(n * cols, 3), [n, cols], &device);
                let bias_tensor = Some(tensor(&bias, [rows], &device));
                let y = values(sparse_linear(x, &packed, bias_tensor, Activation::None));
                for (i, y) in y.iter().enumerate().filter(|(i, _)| i % rows >= keep) {
                    assert_eq!(*y, bias[i % rows], "{text}");
                }
            }
        }
    }
}

#[test]
fn nan_passes_through_a_fused_activation_as_through_burns_own() {
    for device in devices() {
        for text in PATTERNS {
            let case = case(text, 64, 64, sparsity(text), &device).unwrap();
            for n in [1, 5, 20, 70] {
                let x = Tensor::<2>::full([n, 64], f32::NAN, &device);
                let y = values(sparse_linear(x, &case.packed, None, Activation::Relu));
                assert!(y.iter().all(|y| y.is_nan()), "{text} n={n}");
            }
        }
    }
}

#[test]
fn a_batch_of_several_axes_keeps_them() {
    for device in devices() {
        let case = case("balanced(block=32)", 48, 64, 0.75, &device).unwrap();
        let x = tensor(&noise(2 * 3 * 64, 3), [2, 3, 64], &device);
        let y = sparse_linear(x, &case.packed, None, Activation::None);
        assert_eq!(y.dims(), [2, 3, 48]);
        let none = Tensor::<2>::zeros([0, 64], &device);
        assert_eq!(sparse_linear(none, &case.packed, None, Activation::None).dims(), [0, 48]);
    }
}

/// Returns the sparse kernel chosen for `n` tokens, without a measurement: nothing is measured on a training device.
fn kernel(weight: &PackedTensors, n: usize, device: &Device) -> KernelName {
    match select(weight, n, DType::F32, &device.clone().autodiff()) {
        Choice::Sparse { name, .. } => name,
        dense => panic!("{dense}"),
    }
}

#[test]
fn an_output_that_may_lie_features_major_is_the_same_tensor_to_whatever_reads_it() {
    for device in devices() {
        let mut seen = 0;
        for text in PATTERNS {
            for (rows, cols) in [(31, 1), (33, 31), (64, 64), (97, 130)] {
                let Some(first) = case(text, rows, cols, 0.75, &device) else { continue };
                let Some(second) = case(text, 40, rows, 0.5, &device) else { continue };
                for n in [1, 31, 40, 193] {
                    let (x, bias) = (noise(n * cols, 3), noise(rows, 5));
                    let name = kernel(&first.packed, n, &device);
                    let product = |run: fn(_, &PackedTensors, _, _, _) -> Tensor<2>| {
                        let (x, bias) =
                            (tensor(&x, [n, cols], &device), tensor(&bias, [rows], &device));
                        run(x, &first.packed, Some(bias), Activation::Gelu, name)
                    };
                    let expected = product(sparse_linear_with);
                    let found = product(sparse_linear_features_major);
                    assert_eq!(found.dims(), [n, rows]);
                    let next = |y: Tensor<2>| {
                        let name = kernel(&second.packed, n, &device);
                        sparse_linear_with(y, &second.packed, None, Activation::None, name)
                    };
                    let half = |y: &Tensor<2>| y.clone().narrow(0, n / 2, n - n / 2);
                    let what = format!("{name} {text} {rows}x{cols} n={n}");
                    let pairs = [
                        (next(found.clone()), next(expected.clone())),
                        (next(found.clone() + 1.0), next(expected.clone() + 1.0)),
                        (found.clone().transpose(), expected.clone().transpose()),
                        (half(&found), half(&expected)),
                        (found, expected),
                    ];
                    for (found, expected) in pairs {
                        assert_eq!(values(found), values(expected), "{what}");
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen > 300, "only {seen} cases ran");
    }
}
