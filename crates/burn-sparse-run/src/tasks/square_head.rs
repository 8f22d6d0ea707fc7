use burn::tensor::{Bool, Tensor};

use crate::constant;

/// Returns the mean over layers of `MSE(student, teacher) / MSE(teacher, 0)` of their outputs: SquareHead (Kurtic et al.,
/// "Sparse fine-tuning for inference acceleration of large language models", 2023, section 3).
///
/// # Shapes
/// - `student`, `teacher`: `[batch, positions, features]`, one for each layer; the teacher's are not trained
/// - `padding`: `[batch, positions]`, `true` where outputs are ignored
pub(super) fn square_head(
    student: &[Tensor<3>],
    teacher: &[Tensor<3>],
    padding: Option<&Tensor<2, Bool>>,
) -> Tensor<1> {
    let counted = |x: Tensor<3>| match padding {
        None => x,
        Some(padding) => {
            let [batch, positions, features] = x.dims();
            let padding = padding.clone().reshape([batch, positions, 1]);
            x.mask_fill(padding.expand([batch, positions, features]), 0.0)
        }
    };
    let one = |(student, teacher): (&Tensor<3>, &Tensor<3>)| {
        let teacher = constant(teacher.clone(), student);
        let off = counted(student.clone() - teacher.clone()).powi_scalar(2).sum();
        off / counted(teacher).powi_scalar(2).sum()
    };
    let losses = student.iter().zip(teacher).map(one).collect::<Vec<_>>();
    Tensor::cat(losses, 0).mean()
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn every_layer_counts_by_its_own_size_and_padding_does_not() {
        let device = Device::flex();
        let trained = device.clone().autodiff();
        let row = |value: f32, device: &Device| Tensor::<3>::full([1, 2, 3], value, device);
        let teacher = [row(2.0, &device), row(200.0, &device)];
        let student = [row(1.0, &trained), row(200.0, &trained)];
        let loss = |padding| square_head(&student, &teacher, padding).into_scalar::<f32>();
        // A quarter of the first layer's size, and nothing of the second's.
        assert!((loss(None) - 0.125).abs() < 1e-6);
        let off = Tensor::<3>::from_floats([[[1.0, 1.0, 1.0], [9.0, 9.0, 9.0]]], &trained);
        let padding = Tensor::<2, Bool>::from_data([[false, true]], &trained);
        let found = square_head(&[off], &teacher[..1], Some(&padding)).into_scalar::<f32>();
        assert!((found - 0.25).abs() < 1e-6);
    }
}
