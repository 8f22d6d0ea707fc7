use burn::tensor::{Int, Tensor};
use burn_sparse_pattern::format::View;

/// Norm below which the gradient of a vector fades to zero. Its square is still a normal number.
const SMALLEST_NORM: f32 = 1e-18;

/// Computes the gradient of the group lasso over the `vector × 1` vectors of the groups that a row order forms: `w / ‖v‖` for
/// every weight `w` of a vector `v` (Yuan and Lin, 2006). Descending it shrinks unimportant vectors as a whole, so that the
/// rows of a group come to share columns.
///
/// # Shapes
/// - `weight`: as the view's layer stores it
/// - `order`: `[rows]`, the row at every position
pub(super) fn group_lasso<const D: usize>(
    weight: Tensor<D>,
    order: Tensor<1, Int>,
    view: &View,
    vector: usize,
) -> Tensor<D> {
    let (rows, cols, shape) = (view.rows(), view.cols(), weight.shape());
    let positions = order.clone().argsort(0);
    let unit = |weight: Tensor<3>, axis: usize| {
        // Squares of smaller weights underflow, and vectors of zeros have no direction.
        let norms = weight.clone().powi_scalar(2).sum_dim(axis).sqrt();
        weight / norms.clamp_min(SMALLEST_NORM)
    };
    // Pads the last group with rows of zeros.
    let padded = rows.next_multiple_of(vector);
    match view {
        // Stored [cols, rows].
        View::Linear { .. } => {
            let weight = weight.reshape([cols, rows]).select(1, order);
            let weight = pad(weight, 1, padded).reshape([cols, padded / vector, vector]);
            let unit = unit(weight, 2).reshape([cols, padded]).narrow(1, 0, rows);
            unit.select(1, positions).reshape(shape)
        }
        // Stored [rows, ...]; the order of columns within a row does not matter here.
        View::Conv { .. } => {
            let weight = weight.reshape([rows, cols]).select(0, order);
            let weight = pad(weight, 0, padded).reshape([padded / vector, vector, cols]);
            let unit = unit(weight, 1).reshape([padded, cols]).narrow(0, 0, rows);
            unit.select(0, positions).reshape(shape)
        }
    }
}

fn pad(weight: Tensor<2>, axis: usize, to: usize) -> Tensor<2> {
    let mut missing = weight.dims();
    if missing[axis] == to {
        return weight;
    }
    missing[axis] = to - missing[axis];
    let zeros = Tensor::zeros(missing, &weight.device());
    Tensor::cat(vec![weight, zeros], axis)
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;

    #[test]
    fn vectors_whose_squares_underflow_have_no_large_gradient() {
        let weight = Tensor::<2>::full([2, 3], 1e-25, &Device::flex());
        let order = Tensor::<1, Int>::arange(0..2, &Device::flex());
        let view = View::Conv { rows: 2, channels: 3, kernel: Vec::new() };
        let found = group_lasso(weight, order, &view, 2).abs().max().into_scalar::<f32>();
        assert!(found <= 1.0, "{found}");
    }

    #[test]
    fn every_vector_of_a_group_has_a_gradient_along_its_own_direction() {
        let device = Device::flex();
        let tensor = |values: Vec<f32>, shape: [usize; 2]| {
            Tensor::<2>::from_data(TensorData::new(values, shape), &device)
        };
        let order = Tensor::<1, Int>::from_data(TensorData::new(vec![2_i32, 0, 1], [3]), &device);
        // Rows 2 and 0 are one group, row 1 and a padding row another; two columns.
        let rows = [[3.0, 0.0], [-2.0, 5.0], [4.0, 0.0]];
        let expected = [[0.6, 0.0], [-1.0, 1.0], [0.8, 0.0]];
        let conv = View::Conv { rows: 3, channels: 2, kernel: vec![1, 1] };
        let linear = View::Linear { rows: 3, cols: 2 };
        for (view, transposed) in [(conv, false), (linear, true)] {
            let stored = |rows: [[f32; 2]; 3]| match transposed {
                true => (0..2).flat_map(|col| (0..3).map(move |row| rows[row][col])).collect(),
                false => rows.concat(),
            };
            let shape = if transposed { [2, 3] } else { [3, 2] };
            let found = group_lasso(tensor(stored(rows), shape), order.clone(), &view, 2);
            let found: Vec<f32> = found.into_data().try_into_vec().unwrap();
            let close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
            let expected: Vec<f32> = stored(expected);
            assert!(found.iter().zip(&expected).all(close), "{found:?}");
        }
    }
}
