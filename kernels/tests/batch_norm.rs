//! Tests of batch normalization and its gradients against Burn's, in training and with given statistics.

use burn::tensor::activation::relu;
use burn::tensor::module::{batch_norm, batch_norm_train};
use burn::tensor::{Device, Tensor, TensorData};
use burn_sparse_kernels::{batch_norm_relu, batch_norm_relu_train};

fn noise(seed: usize, len: usize) -> Vec<f32> {
    // Values far from zero, at a seed-dependent offset, for which a plain sum of squares would lose precision.
    let value = |i: usize| ((i * 7919 + seed * 104_729) % 1009) as f32 / 200.0 + seed as f32;
    (0..len).map(value).collect()
}

fn leaf<const D: usize>(seed: usize, shape: [usize; D], device: &Device) -> Tensor<D> {
    let data = TensorData::new(noise(seed, shape.iter().product()), shape);
    Tensor::from_data(data, device).require_grad()
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}

/// Returns the output, the statistics, and the gradients of input, gamma, beta and shortcut.
fn trained(ours: bool, shape: [usize; 4], with_shortcut: bool) -> Vec<(&'static str, Vec<f32>)> {
    let device = Device::flex().autodiff();
    let (x, shortcut) = (leaf(3, shape, &device), leaf(0, shape, &device) - 4.0);
    let shortcut = shortcut.detach().require_grad();
    let (gamma, beta) = (leaf(1, [shape[1]], &device), leaf(2, [shape[1]], &device));
    let added = with_shortcut.then_some(&shortcut);
    let (y, mean, variance) = match ours {
        true => {
            let found = batch_norm_relu_train(&x, &gamma, &beta, 1e-5, added).unwrap();
            (found.output, found.mean, found.variance)
        }
        false => {
            let found = batch_norm_train(x.clone(), gamma.clone(), beta.clone(), 1e-5);
            let y = match added {
                Some(added) => found.output + added.clone(),
                None => found.output,
            };
            (relu(y), found.mean, found.variance)
        }
    };
    let grads = (y.clone() * y.clone() * leaf(5, shape, &device)).sum().backward();
    let mut found = vec![
        ("y", values(y.inner())),
        ("mean", values(mean.inner())),
        ("variance", values(variance.inner())),
        ("dx", values(x.grad(&grads).unwrap())),
        ("dgamma", values(gamma.grad(&grads).unwrap())),
        ("dbeta", values(beta.grad(&grads).unwrap())),
    ];
    if with_shortcut {
        found.push(("dshortcut", values(shortcut.grad(&grads).unwrap())));
    }
    found
}

#[test]
fn normalization_and_its_gradients_are_burns_own() {
    for shape in [[5, 3, 7, 9], [2, 1, 1, 1], [3, 33, 4, 8], [1, 2, 31, 3], [16, 4, 16, 16]] {
        for with_shortcut in [false, true] {
            let (found, expected) =
                (trained(true, shape, with_shortcut), trained(false, shape, with_shortcut));
            for ((name, found), (_, expected)) in found.iter().zip(&expected) {
                assert_eq!(found.len(), expected.len(), "{name} of {shape:?}");
                let most = expected.iter().fold(1.0_f32, |most, value| most.max(value.abs()));
                for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
                    let off = (found - expected).abs();
                    assert!(
                        off <= 1e-4 * most,
                        "{name} {at} of {shape:?}: {found}, not {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn its_bits_are_the_same_on_any_number_of_threads() {
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| trained(true, [6, 5, 9, 11], true))
    };
    assert!(on(1) == on(3));
}

#[test]
fn what_is_not_a_number_stays_one() {
    let device = Device::flex().autodiff();
    let x = Tensor::<4>::full([2, 1, 2, 2], f32::NAN, &device);
    let (gamma, beta) = (Tensor::ones([1], &device), Tensor::zeros([1], &device));
    let found = batch_norm_relu_train(&x, &gamma, &beta, 1e-5, None).unwrap();
    assert!(values(found.output.inner()).iter().all(|y| y.is_nan()));
}

#[test]
fn normalization_by_known_statistics_is_burns_own() {
    let device = Device::flex();
    let inner = |tensor: Tensor<1>| tensor.inner();
    for shape in [[5, 3, 7, 9], [2, 1, 1, 1], [3, 33, 4, 8], [1, 2, 31, 3], [16, 64, 32, 32]] {
        let x = Tensor::<4>::from_data(
            TensorData::new(noise(3, shape.iter().product()), shape),
            &device,
        );
        // Not contiguous: the memory order differs from the axis order.
        let shortcut = (x.clone() - 6.0).swap_dims(2, 3) * 1.0;
        let shortcut = shortcut.swap_dims(2, 3);
        let [gamma, beta, mean, variance] =
            [1, 2, 3, 4].map(|seed| inner(leaf(seed, [shape[1]], &device.clone().autodiff())));
        let normalized = batch_norm(
            x.clone(),
            gamma.clone(),
            beta.clone(),
            mean.clone(),
            variance.clone(),
            1e-5,
        );
        for added in [None, Some(&shortcut)] {
            let found =
                batch_norm_relu(&x, [&gamma, &beta], [&mean, &variance], 1e-5, added).unwrap();
            let expected = match added {
                Some(added) => normalized.clone() + added.clone(),
                None => normalized.clone(),
            };
            let (found, expected) = (values(found), values(relu(expected)));
            assert_eq!(found.len(), expected.len());
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let near = (found - expected).abs() <= 1e-4 * expected.abs().max(1.0);
                assert!(near, "{at} of {shape:?}: {found}, not {expected}");
            }
        }
    }
}

#[test]
#[should_panic = "batch_norm_relu: gamma, beta, mean and variance"]
fn statistics_of_other_channels_are_refused() {
    let device = Device::flex();
    let x = Tensor::<4>::zeros([2, 3, 4, 4], &device);
    let [right, wrong] = [3, 4].map(|channels| Tensor::<1>::ones([channels], &device));
    batch_norm_relu(&x, [&right, &right], [&right, &wrong], 1e-5, None);
}

#[test]
fn what_is_not_trained_is_left_to_burn() {
    let device = Device::flex();
    let x = Tensor::<4>::zeros([2, 3, 4, 4], &device);
    let (gamma, beta) = (Tensor::ones([3], &device), Tensor::zeros([3], &device));
    assert!(batch_norm_relu_train(&x, &gamma, &beta, 1e-5, None).is_none());
}
