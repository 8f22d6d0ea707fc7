//! Tests of convolutions with packed kernels against float64, on awkward geometry, through Burn's dispatch.

use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use burn_sparse_kernels::{
    Activation, Choice, PackedTensors, Window, dense_conv2d, select_conv2d, sparse_conv2d,
};
use burn_sparse_pattern::{Mask, Packed, Pattern, Scores, Search};

mod support;

use support::devices;

fn noise(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0).collect()
}

/// Computes the convolution of `x [batch, in, height, width]` with a weight
/// `[out, kernel row · kernel column · in]` in float64.
fn reference(
    weight: &[f32],
    rows: usize,
    x: &[f32],
    shape: [usize; 4],
    window: &Window,
) -> Vec<f64> {
    let [batch, channels, height, width] = shape;
    let [out_height, out_width] = window.output([height, width]);
    let cols = channels * window.kernel[0] * window.kernel[1];
    let mut y = Vec::new();
    for sample in 0..batch {
        for row in 0..rows {
            for place in 0..out_height * out_width {
                let (oy, ox) = (place / out_width, place % out_width);
                let mut sum = 0.0;
                for col in 0..cols {
                    let (tap, channel) = (col / channels, col % channels);
                    let (ky, kx) = (tap / window.kernel[1], tap % window.kernel[1]);
                    let iy = oy * window.stride[0] + ky * window.dilation[0];
                    let ix = ox * window.stride[1] + kx * window.dilation[1];
                    let (iy, ix) = (
                        iy.wrapping_sub(window.padding[0].0),
                        ix.wrapping_sub(window.padding[1].0),
                    );
                    if iy < height && ix < width {
                        let at = ((sample * channels + channel) * height + iy) * width + ix;
                        sum += f64::from(weight[row * cols + col]) * f64::from(x[at]);
                    }
                }
                y.push(sum);
            }
        }
    }
    y
}

/// Returns image shapes `[batch, in, height, width]`, output channels, and windows.
fn geometry() -> Vec<([usize; 4], usize, Window)> {
    let window = |kernel, stride, dilation, padding| Window { kernel, stride, dilation, padding };
    vec![
        ([1, 3, 8, 8], 32, window([3, 3], [1, 1], [1, 1], [(1, 1), (1, 1)])),
        ([3, 4, 7, 9], 17, window([3, 3], [2, 2], [1, 1], [(1, 1), (1, 1)])),
        ([2, 5, 6, 5], 31, window([5, 3], [1, 1], [1, 1], [(2, 1), (0, 3)])),
        ([7, 33, 4, 7], 16, window([1, 1], [2, 3], [1, 1], [(0, 0), (0, 0)])),
        ([2, 4, 9, 11], 33, window([3, 3], [1, 1], [2, 3], [(0, 0), (0, 0)])),
        ([5, 4, 1, 1], 16, window([2, 2], [1, 1], [1, 1], [(3, 2), (4, 3)])),
        ([1, 9, 1, 70], 64, window([1, 3], [1, 1], [1, 1], [(0, 0), (1, 1)])),
        ([1, 1, 2, 2], 1, window([2, 2], [1, 1], [1, 1], [(0, 0), (0, 0)])),
        ([40, 8, 16, 16], 48, window([3, 3], [1, 1], [1, 1], [(1, 1), (1, 1)])),
        // Dilation larger than one combined with a stride; a stride larger than the window.
        ([2, 3, 13, 14], 9, window([3, 3], [2, 4], [3, 2], [(1, 2), (3, 0)])),
        ([3, 2, 17, 13], 12, window([2, 1], [5, 3], [1, 1], [(0, 1), (2, 2)])),
        // More than fits into a strip, with a line length that strips do not divide evenly.
        ([2, 80, 47, 40], 16, window([3, 3], [1, 1], [1, 1], [(1, 1), (1, 1)])),
        // Pointwise convolutions.
        ([1, 150, 20, 17], 200, window([1, 1], [1, 1], [1, 1], [(0, 0), (0, 0)])),
        ([4, 6, 8, 16], 33, window([1, 1], [1, 1], [1, 1], [(0, 0), (0, 0)])),
    ]
}

#[test]
fn every_layout_agrees_with_a_float64_convolution_on_any_geometry() {
    let cases = geometry();
    let patterns = [
        "unstructured",
        "balanced(block=32)",
        "balanced(block=7)",
        "vector-wise(vector=16)",
        "shfl-bw(vector=8)",
        "block-wise(block=4)",
    ];
    let mut ran = 0;
    for device in devices() {
        for text in patterns {
            let pattern: Pattern = text.parse().unwrap();
            for &(shape, rows, window) in &cases {
                let cols = shape[1] * window.kernel[0] * window.kernel[1];
                let weights = noise(rows * cols);
                let scores: Vec<f32> = weights.iter().map(|w| w.abs()).collect();
                let scores = Scores::new(rows, cols, &scores).unwrap();
                let Ok(found) = pattern.project(&scores, 0.5, &Search::default()) else { continue };
                let order = found.row_order.as_ref();
                let packed = Packed::pack(&pattern, &weights, &found.mask, order).unwrap();
                let dense = packed.unpack();
                let (x, bias) = (noise(shape.iter().product()), noise(rows));
                let expected = reference(&dense, rows, &x, shape, &window);
                let tensors = PackedTensors::from_packed(&packed, &device);
                let tracked = device.clone().autodiff();
                // A sparse kernel is always selected on a training device; an inference device may prefer dense.
                let [height, width] = window.output([shape[2], shape[3]]);
                let n = shape[0] * height * width;
                let Choice::Sparse { name, .. } = select_conv2d(&tensors, n, DType::F32, &tracked)
                else {
                    panic!("a sparse kernel")
                };
                for (dtype, tolerance) in [(FloatDType::F32, 1e-5), (FloatDType::BF16, 0.02)] {
                    if dtype == FloatDType::BF16 && device != Device::flex() {
                        continue;
                    }
                    let tensors = tensors.clone().cast(dtype);
                    let x = Tensor::from_data(TensorData::new(x.clone(), shape), &device);
                    let b = Tensor::from_data(TensorData::new(bias.clone(), [rows]), &device);
                    let relu = Activation::Relu;
                    let y = sparse_conv2d(x, &tensors, Some(b), relu, &window, name);
                    assert_eq!(y.dims(), [shape[0], rows, height, width]);
                    let y: Vec<f32> = y.into_data().try_into_vec().unwrap();
                    for (at, (y, sum)) in y.iter().zip(&expected).enumerate() {
                        let row = at / (height * width) % rows;
                        let right = (sum + f64::from(bias[row])).max(0.0);
                        let allowed = tolerance * (cols as f64).sqrt().max(1.0);
                        let off = (f64::from(*y) - right).abs();
                        assert!(
                            off <= allowed,
                            "{text} {shape:?} {window:?} {at}: {y}, not {right}"
                        );
                    }
                    ran += 1;
                }
            }
        }
    }
    assert!(ran > 60, "{ran}");
}

#[test]
fn a_kernel_that_does_not_fit_its_picture_has_no_output() {
    let window =
        Window { kernel: [3, 3], stride: [1, 2], dilation: [1, 1], padding: [(0, 0), (1, 1)] };
    assert_eq!(window.output([2, 5]), [0, 3]);
    assert_eq!(window.output([3, 1]), [1, 1]);
}

/// Returns the output of a convolution in training and the gradients of `x`, weight and bias.
fn trained(
    ours: bool,
    (shape, out, window): ([usize; 4], usize, Window),
    biased: bool,
) -> [Vec<f32>; 4] {
    let device = Device::flex().autodiff();
    let kernel = [out, shape[1], window.kernel[0], window.kernel[1]];
    let filled = |shape: [usize; 4]| {
        let data = TensorData::new(noise(shape.iter().product()), shape);
        Tensor::<4>::from_data(data, &device).require_grad()
    };
    let (x, weight) = (filled(shape), filled(kernel));
    let bias = Tensor::<1>::from_data(TensorData::new(noise(out), [out]), &device).require_grad();
    let given = biased.then(|| bias.clone());
    let y = match ours {
        true => dense_conv2d(&x, &weight, given.as_ref(), &window).unwrap(),
        false => {
            let Window { stride, padding, dilation, .. } = window;
            let options = ConvOptions::new_with_padding(stride, padding, dilation, 1);
            conv2d(x.clone(), weight.clone(), given, options)
        }
    };
    let grads = (y.clone() * y.clone() * 0.5).sum().backward();
    let values = |tensor: Tensor<1>| tensor.into_data().try_into_vec::<f32>().unwrap();
    let db = bias.grad(&grads).map_or(Vec::new(), values);
    let [dx, dw] = [x, weight].map(|tensor| values(tensor.grad(&grads).unwrap().flatten(0, 3)));
    [values(y.inner().flatten(0, 3)), dx, dw, db]
}

fn threads(count: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(count).build().unwrap()
}

#[test]
fn a_dense_convolution_and_its_gradients_are_burns_own() {
    // With more threads than images, `dense_conv2d` would leave the work to Burn.
    let one_thread = threads(1);
    // So many images, with so few pixels, that a part of the batch is not unfolded at once.
    let window =
        Window { kernel: [3, 2], stride: [2, 2], dilation: [1, 1], padding: [(1, 1), (0, 1)] };
    let pointwise =
        Window { kernel: [1, 1], stride: [1, 1], dilation: [1, 1], padding: [(0, 0), (0, 0)] };
    let many =
        [([70, 3, 10, 9], 5, window), ([35, 2, 4, 1], 3, window), ([20, 5, 12, 11], 40, pointwise)];
    for case in geometry().into_iter().chain(many) {
        for biased in [true, false] {
            let found = one_thread.install(|| trained(true, case, biased));
            let expected = trained(false, case, biased);
            assert_eq!(found[3].is_empty(), !biased);
            for (name, (found, expected)) in
                ["y", "dx", "dw", "db"].iter().zip(found.iter().zip(&expected))
            {
                assert_eq!(found.len(), expected.len(), "{name} of {case:?}");
                let most = expected.iter().fold(1.0_f32, |most, value| most.max(value.abs()));
                for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
                    let off = (found - expected).abs();
                    assert!(off <= 2e-5 * most, "{name} {at} of {case:?}: {found}, not {expected}");
                }
            }
        }
    }
}

#[test]
fn gradients_of_a_dense_convolution_have_the_same_bits_on_any_number_of_threads() {
    let window =
        Window { kernel: [3, 3], stride: [1, 1], dilation: [1, 1], padding: [(1, 1), (1, 1)] };
    let pointwise = Window { kernel: [1, 1], padding: [(0, 0), (0, 0)], ..window };
    for case in [([21, 5, 9, 8], 7, window), ([21, 5, 12, 11], 70, pointwise)] {
        let [one, three] = [1, 3].map(|count| threads(count).install(|| trained(true, case, true)));
        assert!(one == three, "{case:?}");
    }
}

#[test]
fn gradients_of_a_packed_convolution_have_the_same_bits_on_any_number_of_threads() {
    let window =
        Window { kernel: [3, 3], stride: [1, 1], dilation: [1, 1], padding: [(1, 1), (1, 1)] };
    let (shape, rows, cols) = ([21, 5, 9, 8], 37, 45);
    let device = Device::flex().autodiff();
    for text in ["unstructured", "balanced(block=9)", "shfl-bw(vector=8)"] {
        let pattern: Pattern = text.parse().unwrap();
        let weights = noise(rows * cols);
        let scores: Vec<f32> = weights.iter().map(|w| w.abs()).collect();
        let scores = Scores::new(rows, cols, &scores).unwrap();
        let found = pattern.project(&scores, 0.5, &Search::default()).unwrap();
        let order = found.row_order.as_ref();
        let packed = Packed::pack(&pattern, &weights, &found.mask, order).unwrap();
        let gradients = || {
            let tensors = PackedTensors::from_packed(&packed, &device);
            let (layout, values, index, checked) = tensors.into_parts();
            let values = values.require_grad();
            let of = (rows, cols);
            let tensors = PackedTensors::from_parts(of, layout, values.clone(), index, checked);
            let Choice::Sparse { name, .. } = select_conv2d(&tensors, 21 * 72, DType::F32, &device)
            else {
                panic!("a sparse kernel")
            };
            let x = TensorData::new(noise(shape.iter().product()), shape);
            let x = Tensor::<4>::from_data(x, &device).require_grad();
            let y = sparse_conv2d(x.clone(), &tensors, None, Activation::Relu, &window, name);
            let grads = (y.clone() * y * 0.5).sum().backward();
            let dx: Vec<f32> = x.grad(&grads).unwrap().into_data().try_into_vec().unwrap();
            let dw: Vec<f32> = values.grad(&grads).unwrap().into_data().try_into_vec().unwrap();
            (dx, dw)
        };
        let [one, three] = [1, 3].map(|count| threads(count).install(gradients));
        assert!(one == three && one.1.iter().any(|&dw| dw != 0.0), "{text}");
    }
}

#[test]
fn a_dense_convolution_without_gradients_is_burns_own_for_any_number_of_pictures() {
    let pools = [1, 3].map(threads);
    for (shape, out, window) in geometry() {
        let kernel = [out, shape[1], window.kernel[0], window.kernel[1]];
        let filled = |shape: [usize; 4]| {
            let data = TensorData::new(noise(shape.iter().product()), shape);
            Tensor::<4>::from_data(data, &Device::flex())
        };
        let (x, weight) = (filled(shape), filled(kernel));
        let bias = Tensor::<1>::from_data(TensorData::new(noise(out), [out]), &Device::flex());
        let values = |tensor: Tensor<4>| tensor.into_data().try_into_vec::<f32>().unwrap();
        for bias in [None, Some(bias)] {
            let Window { stride, padding, dilation, .. } = window;
            let options = ConvOptions::new_with_padding(stride, padding, dilation, 1);
            let expected = values(conv2d(x.clone(), weight.clone(), bias.clone(), options));
            for pool in &pools {
                let found = pool.install(|| dense_conv2d(&x, &weight, bias.as_ref(), &window));
                let found = values(found.unwrap());
                assert_eq!(found.len(), expected.len(), "{shape:?}");
                for (found, expected) in found.iter().zip(&expected) {
                    assert!((found - expected).abs() <= 1e-4, "{shape:?}: {found} {expected}");
                }
            }
        }
    }
}

#[test]
fn of_no_pictures_a_dense_convolution_makes_none() {
    let window = geometry()[0].2;
    let pointwise = Window { kernel: [1, 1], padding: [(0, 0), (0, 0)], ..window };
    for window in [window, pointwise] {
        let empty = TensorData::new(Vec::<f32>::new(), [0, 4, 12, 11]);
        let x = Tensor::<4>::from_data(empty, &Device::flex());
        let [rows, columns] = window.kernel;
        let weight = Tensor::<4>::ones([17, 4, rows, columns], &Device::flex());
        let y = dense_conv2d(&x, &weight, None, &window).unwrap();
        assert_eq!(y.dims(), [0, 17, 12, 11]);
    }
}

#[test]
fn pictures_without_pixels_give_the_bias_where_they_are_padded() {
    let window =
        Window { kernel: [1, 1], stride: [1, 1], padding: [(1, 1), (0, 0)], dilation: [1, 1] };
    let device = Device::flex().autodiff();
    let empty = TensorData::new(Vec::<f32>::new(), [3, 4, 0, 5]);
    let x = Tensor::<4>::from_data(empty, &device);
    let weight = Tensor::<4>::ones([17, 4, 1, 1], &device);
    assert!(dense_conv2d(&x, &weight, None, &window).is_none(), "left to Burn");

    let mask = Mask::from_fn(17, 4, |_, column| column < 2).unwrap();
    let packed = Packed::pack(&Pattern::Unstructured {}, &noise(68), &mask, None).unwrap();
    let packed = PackedTensors::from_packed(&packed, &device);
    let bias = Tensor::<1>::from_data(TensorData::new(noise(17), [17]), &device).require_grad();
    let Choice::Sparse { name, .. } = select_conv2d(&packed, 30, DType::F32, &device) else {
        panic!("training runs sparse");
    };
    let y = sparse_conv2d(x, &packed, Some(bias.clone()), Activation::None, &window, name);
    assert_eq!(y.dims(), [3, 17, 2, 5]);
    let grads = y.sum().backward();
    let found: Vec<f32> = bias.grad(&grads).unwrap().into_data().try_into_vec().unwrap();
    assert_eq!(found, [30.0; 17]);
}

#[test]
fn training_on_fewer_pictures_than_threads_is_left_to_burn() {
    let (window, pool) = (geometry()[0].2, threads(3));
    for (batch, ours) in [(2, false), (3, true)] {
        let device = Device::flex().autodiff();
        let x = Tensor::<4>::zeros([batch, 4, 7, 9], &device);
        let weight = Tensor::<4>::zeros([17, 4, 3, 3], &device);
        let y = pool.install(|| dense_conv2d(&x, &weight, None, &window));
        assert_eq!(y.is_some(), ours, "{batch} pictures");
    }
}
