use burn::backend::Flex;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::module::linear;
use burn::tensor::{DType, Shape, Tensor};
use burn_flex::FlexTensor;

use crate::flex_tensor::into_flex_tensor;
use crate::ops::{floats, whole};

/// Number of outputs up to which the steps around a product are noticeable.
const SMALL: usize = 1 << 16;

/// Computes `y = x · W + bias` with a dense weight. For few outputs on the CPU without autodiff, it calls the same
/// product as Burn's `linear` without the steps around it, which take longer than the product of a small layer.
///
/// # Shapes
/// - `x`: `[..., cols]`
/// - `weight`: `[cols, rows]`
/// - `bias`: `[rows]`
/// - output: `[..., rows]`
///
/// # Panics
/// Panics if shapes or types do not fit.
pub fn dense_linear<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
) -> Tensor<D> {
    match small(x, weight, bias) {
        Ok(y) => Tensor::from_primitive::<Flex>(y),
        Err((x, weight, bias)) => linear(x, weight, bias),
    }
}

type Operands<const D: usize> = (Tensor<D>, Tensor<2>, Option<Tensor<1>>);

/// Multiplies small operands, or returns them.
#[expect(clippy::result_large_err, reason = "a box would cost an allocation per call")]
fn small<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
) -> Result<FlexTensor, Operands<D>> {
    let mut shape = x.dims();
    let [cols, rows] = weight.dims();
    let tokens: usize = shape[..D - 1].iter().product();
    let fits = shape[D - 1] == cols
        && (1..=SMALL).contains(&(tokens * rows))
        && bias.as_ref().is_none_or(|bias| bias.dims() == [rows] && bias.dtype() == DType::F32)
        && (x.dtype(), weight.dtype()) == (DType::F32, DType::F32);
    if !fits {
        return Err((x, weight, bias));
    }
    let x = match into_flex_tensor(x) {
        Ok(x) => x,
        Err(x) => return Err((x, weight, bias)),
    };
    let weight = match into_flex_tensor(weight) {
        Ok(weight) => weight,
        Err(weight) => return Err((Tensor::from_primitive::<Flex>(x), weight, bias)),
    };
    let bias = match bias.map(into_flex_tensor).transpose() {
        Ok(bias) => bias,
        Err(bias) => {
            let x = Tensor::from_primitive::<Flex>(x);
            return Err((x, Tensor::from_primitive::<Flex>(weight), Some(bias)));
        }
    };
    let bias = bias.map(|bias| bias.to_contiguous());
    let x = if D == 2 { x } else { x.reshape(Shape::new([tokens, cols])) };
    let mut y = Flex::float_matmul(x, weight);
    if let Some(bias) = bias.as_ref().map(floats) {
        let whole = whole(&mut y).expect("a product owns its memory");
        match bias {
            [bias] => whole.iter_mut().for_each(|y| *y += bias),
            _ => whole.chunks_exact_mut(rows).for_each(|row| {
                row.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
            }),
        }
    }
    if D != 2 {
        shape[D - 1] = rows;
        y = y.reshape(Shape::new(shape));
    }
    Ok(y)
}
