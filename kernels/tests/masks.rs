//! Tests of masking a dense weight, on every device.

use burn::tensor::{DType, Tensor, TensorData};
use burn_sparse_kernels::{apply_mask, decay_dropped};

mod support;

use support::{devices, tensor, values};

#[test]
fn masking_drops_weights_and_passes_the_gradient_straight_through() {
    for device in devices() {
        let device = device.autodiff();
        let weight = tensor(&[1.0, f32::NAN, -3.0, 4.0], [2, 2], &device).require_grad();
        let mask = TensorData::new(vec![1_u8, 0, 0, 1], [4]);
        let mask = Tensor::from_data(mask, (&device, DType::U8));
        let out = apply_mask(weight.clone(), mask);
        assert_eq!(values(out.clone()), [1.0, 0.0, 0.0, 4.0]);
        let grads = (out * tensor(&[1.0, 2.0, 3.0, 4.0], [2, 2], &device)).sum().backward();
        assert_eq!(values(weight.grad(&grads).unwrap()), [1.0, 2.0, 3.0, 4.0]);
    }
}

#[test]
fn masking_and_decaying_leave_tensors_that_others_hold_as_they_are() {
    for device in devices() {
        let weight = tensor(&[1.0, -2.0, -3.0, 4.0], [2, 2], &device);
        let grad = tensor(&[0.5, 0.5, 0.25, 0.25], [2, 2], &device);
        let mask = TensorData::new(vec![1_u8, 0, 0, 1], [4]);
        let mask = Tensor::from_data(mask, (&device, DType::U8));
        let out = decay_dropped(grad.clone(), weight.clone(), mask.clone(), 0.5);
        assert_eq!(values(out), [0.5, -0.5, -1.25, 0.25]);
        assert_eq!(values(apply_mask(weight.clone(), mask.clone())), [1.0, 0.0, 0.0, 4.0]);
        assert_eq!(values(grad.clone()), [0.5, 0.5, 0.25, 0.25]);
        assert_eq!(values(weight.clone()), [1.0, -2.0, -3.0, 4.0]);
        // The results are the same for transposed views and for tensors that are not shared.
        let turned = weight.clone().transpose();
        let transposed = apply_mask(turned.clone(), mask.clone());
        assert_eq!(values(transposed), [1.0, 0.0, 0.0, 4.0]);
        assert_eq!(
            values(decay_dropped(grad, turned, mask.clone(), 2.0)),
            [0.5, -5.5, -3.75, 0.25]
        );
        assert_eq!(values(apply_mask(weight, mask)), [1.0, 0.0, 0.0, 4.0]);
    }
}
