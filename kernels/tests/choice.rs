//! Tests of kernel selection on a GPU, or on a software device in its place.
#![cfg(any(feature = "wgpu", feature = "cuda"))]

mod support;

use std::sync::Once;

use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_sparse_kernels::{
    Activation, Choice, Costs, PackedTensors, Predicted, Reason, select, sparse_linear_with,
};
use support::{case, devices};

fn weight(device: &Device) -> PackedTensors {
    case("shfl-bw(vector=32)", 64, 96, 0.75, device).unwrap().packed
}

/// Returns every GPU, after installing measured costs: without them no product is timed.
fn gpus() -> impl Iterator<Item = Device> {
    static MEASURED: Once = Once::new();
    MEASURED.call_once(|| Costs::measure().install());
    devices().into_iter().filter(|device| *device != Device::flex())
}

#[test]
fn the_product_that_was_measured_to_be_faster_runs() {
    for device in gpus() {
        let weight = weight(&device);
        for tokens in [1, 33] {
            let choice = select(&weight, tokens, DType::F32, &device);
            let Predicted { sparse_us, dense_us } = choice.predicted().expect("a measurement");
            assert!(sparse_us > 0.0 && dense_us > 0.0);
            let slower = matches!(choice, Choice::Dense { reason: Reason::Slower(_) });
            assert_eq!(slower, dense_us < sparse_us, "{choice}");
        }
    }
}

#[test]
fn the_kernel_that_was_chosen_gives_the_product() {
    for device in gpus() {
        let weight = weight(&device);
        let dense = weight.to_packed().unwrap().unpack();
        // Token counts at which more than one kernel is measured, and one at which only one is.
        for tokens in [1, 9, 33] {
            let x: Vec<f32> =
                (0..tokens * 96).map(|i| ((i * 53) % 97) as f32 / 48.0 - 1.0).collect();
            let choice = select(&weight, tokens, DType::F32, &device);
            // If the dense product is faster, use the kernel that is selected without a measurement.
            let training = device.clone().autodiff();
            let name = match (choice, select(&weight, tokens, DType::F32, &training)) {
                (Choice::Sparse { name, .. }, _) | (_, Choice::Sparse { name, .. }) => name,
                (_, dense) => panic!("{dense}"),
            };
            let input = Tensor::<2>::from_data(TensorData::new(x.clone(), [tokens, 96]), &device);
            let y = sparse_linear_with(input, &weight, None, Activation::None, name);
            let y: Vec<f32> = y.into_data().try_into_vec().unwrap();
            for (at, found) in y.iter().enumerate() {
                let (token, row) = (at / 64, at % 64);
                let terms =
                    (0..96).map(|col| f64::from(dense[row * 96 + col] * x[token * 96 + col]));
                assert!(
                    (f64::from(*found) - terms.sum::<f64>()).abs() < 1e-3,
                    "{name} {token} {row}"
                );
            }
        }
    }
}

#[test]
fn a_size_is_measured_once_and_training_measures_nothing() {
    for device in gpus() {
        let first = select(&weight(&device), 17, DType::F32, &device);
        // Another weight of the same size, with a token count that rounds up to the same power of two.
        assert_eq!(select(&weight(&device), 32, DType::F32, &device), first);
        let none = select(&weight(&device), 0, DType::F32, &device);
        assert!(matches!(none, Choice::Sparse { predicted: None, .. }), "{none}");
        let training = device.clone().autodiff();
        let choice = select(&weight(&training), 17, DType::F32, &training);
        assert!(matches!(choice, Choice::Sparse { predicted: None, .. }), "{choice}");
    }
}

#[test]
fn what_a_device_cannot_launch_at_once_is_dense_and_the_reason_says_so() {
    for device in gpus() {
        // One group per row: more than WebGPU and Vulkan guarantee for one launch.
        let weight = case("unstructured", 70_000, 4, 0.5, &device).unwrap().packed;
        match select(&weight, 3, DType::F32, &device) {
            Choice::Dense { reason: Reason::Unsupported(reason) } => {
                assert!(reason.contains("fewer groups"), "{reason}");
            }
            Choice::Dense { .. } => {}
            Choice::Sparse { name, .. } => {
                let x = Tensor::<2>::ones([3, 4], &device);
                let y = sparse_linear_with(x, &weight, None, Activation::None, name);
                let y: Vec<f32> = y.into_data().try_into_vec().unwrap();
                let dense = weight.to_packed().unwrap().unpack();
                let last: f32 = dense[dense.len() - 4..].iter().sum();
                assert!((y[y.len() - 1] - last).abs() < 1e-5);
            }
        }
        // More elements than 32 bits can index.
        let weight = self::weight(&device);
        let choice = select(&weight, 1 << 30, DType::F32, &device);
        assert!(matches!(choice, Choice::Dense { reason: Reason::Unsupported(_) }), "{choice}");
    }
}
