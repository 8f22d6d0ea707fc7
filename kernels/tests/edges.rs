//! Edge cases of the inputs that the operators accept.

mod support;

use burn::tensor::{DType, Device, Tensor};
use burn_sparse_kernels::{
    Activation, Choice, Layout, PackedTensors, Window, select_conv2d, sparse_conv2d, sparse_linear,
};
use support::{case, noise, tensor, values};

fn conv2d(kernel: [usize; 2], dilation: usize, picture: [usize; 2]) -> Tensor<4> {
    let device = Device::flex();
    let window = Window { kernel, stride: [1, 1], dilation: [dilation, 1], padding: [(0, 0); 2] };
    let case = case("shfl-bw(vector=8)", 16, 8 * kernel[0] * kernel[1], 0.5, &device).unwrap();
    let x = Tensor::<4>::zeros([1, 8, picture[0], picture[1]], &device);
    // A sparse kernel is always selected on a training device.
    let choice = select_conv2d(&case.packed, 1, DType::F32, &device.clone().autodiff());
    let Choice::Sparse { name, .. } = choice else { panic!("{choice}") };
    sparse_conv2d(x, &case.packed, None, Activation::None, &window, name)
}

#[test]
#[should_panic(expected = "does not fit an image of 3 x 3")]
fn a_convolution_larger_than_its_picture_is_refused() {
    conv2d([5, 5], 1, [3, 3]);
}

#[test]
#[should_panic(expected = "does not fit an image of 16 x 1")]
fn a_dilation_whose_reach_wraps_around_is_refused() {
    // Five times this dilation is 2^64 + 1.
    conv2d([6, 1], 0xCCCC_CCCC_CCCC_CCCD, [16, 1]);
}

#[test]
fn no_steps_of_some_samples_make_outputs_of_that_shape() {
    let device = Device::flex();
    let case = case("balanced(block=32)", 48, 64, 0.75, &device).unwrap();
    for shape in [[3, 0, 64], [0, 5, 64], [0, 0, 64]] {
        let x = Tensor::<3>::zeros(shape, &device);
        let y = sparse_linear(x, &case.packed, None, Activation::Relu);
        assert_eq!(y.dims(), [shape[0], shape[1], 48]);
    }
}

#[test]
fn a_bias_that_alone_is_trained_sees_the_activation() {
    let device = Device::flex();
    let case = case("shfl-bw(vector=16)", 32, 64, 0.75, &device).unwrap();
    let x = tensor(&noise(5 * 64, 3), [5, 64], &device);
    let bias = tensor(&noise(32, 5), [32], &device.clone().autodiff()).require_grad();
    let y = sparse_linear(x.clone(), &case.packed, Some(bias.clone()), Activation::Relu);
    let found = values(bias.grad(&y.sum().backward()).unwrap());
    let y = sparse_linear(x, &case.packed, Some(bias.inner()), Activation::Relu);
    // The gradient of a sum of ReLUs is the number of positive ones.
    let expected = values(y.greater_elem(0.0).float().sum_dim(0));
    assert_eq!(found, expected);
    assert!(expected.iter().any(|&passed| passed < 5.0));
}

#[test]
fn stacked_single_rows_give_the_outputs_of_their_parts() {
    let device = Device::flex();
    let part = |rows| case("unstructured", rows, 50, 0.8, &device).unwrap().packed;
    let parts = [part(48), part(32), part(7)];
    let stacked = PackedTensors::stack(&parts).unwrap();
    assert_eq!(stacked.rows(), 87);
    for n in [1, 20] {
        let x = tensor(&noise(n * 50, 3), [n, 50], &device);
        let run = |weight: &PackedTensors| sparse_linear(x.clone(), weight, None, Activation::None);
        let apart = Tensor::cat(parts.iter().map(run).collect(), 1);
        assert_eq!(values(run(&stacked)), values(apart));
    }
    // Only the last part may leave a tile of 16 rows incomplete.
    assert!(PackedTensors::stack(&[part(7), part(48)]).is_none());
}

#[test]
fn weights_whose_short_blocks_keep_different_counts_do_not_stack() {
    let device = Device::flex();
    // With 48 columns, the last block has 16.
    let weight = |sparsity| case("balanced(block=32)", 48, 48, sparsity, &device).unwrap().packed;
    let (one, other) = (weight(0.6), weight(0.59));
    assert_eq!(one.layout(), Layout::Balanced { block: 32, kept: 13 });
    assert_eq!(one.layout(), other.layout());
    assert_ne!(one.values().dims(), other.values().dims());
    assert!(PackedTensors::stack(&[one.clone(), other]).is_none());
    assert_eq!(PackedTensors::stack(&[one.clone(), one]).unwrap().rows(), 96);
}
