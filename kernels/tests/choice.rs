//! The choice of a kernel on a GPU, or on a software device in its place.
#![cfg(any(feature = "wgpu", feature = "cuda"))]

mod support;

use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_sparse_kernels::{
    Activation, Choice, PackedTensors, Predicted, Reason, select, sparse_linear_with,
};
use burn_sparse_pattern::{Packed, Pattern, Scores, Search};

fn weight(device: &Device) -> PackedTensors {
    let (rows, cols) = (64, 96);
    let values: Vec<f32> = (0..rows * cols).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
    let scores: Vec<f32> = values.iter().map(|value| value.abs()).collect();
    let pattern: Pattern = "shfl-bw(vector=32)".parse().unwrap();
    let scores = Scores::new(rows, cols, &scores).unwrap();
    let found = pattern.project(&scores, 0.75, &Search::default()).unwrap();
    let packed = Packed::pack(&pattern, &values, &found.mask, found.row_order.as_ref()).unwrap();
    PackedTensors::from_packed(&packed, device)
}

fn gpus() -> impl Iterator<Item = Device> {
    support::devices().into_iter().filter(|device| *device != Device::flex())
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
        // Numbers of tokens at which more than one kernel is measured, and one at which it is one.
        for tokens in [1, 9, 33] {
            let x: Vec<f32> =
                (0..tokens * 96).map(|i| ((i * 53) % 97) as f32 / 48.0 - 1.0).collect();
            let choice = select(&weight, tokens, DType::F32, &device);
            // Where the dense product is faster, the kernel without a measurement stands in.
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
        // Another weight of the same size, and as many tokens up to the next power of two.
        assert_eq!(select(&weight(&device), 32, DType::F32, &device), first);
        let none = select(&weight(&device), 0, DType::F32, &device);
        assert!(matches!(none, Choice::Sparse { predicted: None, .. }), "{none}");
        let training = device.clone().autodiff();
        let choice = select(&weight(&training), 17, DType::F32, &training);
        assert!(matches!(choice, Choice::Sparse { predicted: None, .. }), "{choice}");
    }
}
