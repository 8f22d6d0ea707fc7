use burn::tensor::{DType, Device};
use burn_sparse_cpu::Isa;

use crate::cost::{Chosen, Costs};
use crate::packed::reads;
use crate::{Choice, KernelName, Layout, PackedShape, PackedTensors, Predicted, Reason};

/// Largest share of the dense product's time that a sparse kernel may be predicted to take. Predictions have errors, and
/// being slower than dense is worse than missing a small gain.
const WORTH_IT: f64 = 0.85;

/// The same for thin matrices, with fewer rows or columns than [`THIN`]: blocks and tiles are mostly padding there, so
/// predictions have larger errors.
const WORTH_IT_THIN: f64 = 0.5;
const THIN: usize = 64;

/// The same for convolutions, which are measured as such on both sides.
const WORTH_IT_CONV2D: f64 = 0.95;

fn worth_it(weight: &PackedTensors) -> f64 {
    if weight.rows.min(weight.cols) < THIN { WORTH_IT_THIN } else { WORTH_IT }
}

/// Number of rows below which Burn has special kernels for the dense product, and convolutions are thinner than any that
/// are measured.
const FEW_ROWS: usize = 8;

/// Number of columns up to which the dense product runs: what a sparse kernel does for every token takes longer.
const FEW_COLS: usize = 8;

/// Chooses the kernel for `n` tokens of type `dtype`: the single answer that dispatch, reports, and benchmarks share.
///
/// On the CPU the choice follows [`Costs::current`]. On a GPU it follows the products themselves: if installed costs were
/// measured, every kernel that may be the fastest is timed when a size is first used; sizes whose tokens round up to the
/// same power of two share the result. Otherwise the kernel that is expected to be fastest runs. On training devices a
/// sparse kernel always runs: the dense product would unpack the weight at every step.
pub fn select(weight: &PackedTensors, n: usize, dtype: DType, device: &Device) -> Choice {
    let choice = select_by(weight, n, dtype, device, Costs::choose, worth_it(weight));
    #[cfg(feature = "cubecl-backend")]
    if let Choice::Sparse { name, .. } = choice
        && name.on_device.gpu().is_some()
        && !device.is_autodiff()
    {
        return faster(choice, crate::calibrate::measured(weight, n, dtype, device));
    }
    choice
}

/// Revises a choice by measured times.
#[cfg(feature = "cubecl-backend")]
fn faster(choice: Choice, found: Option<crate::calibrate::Measured>) -> Choice {
    let (Choice::Sparse { name, .. }, Some(found)) = (choice, found) else { return choice };
    let predicted = found.predicted;
    if predicted.dense_us < predicted.sparse_us {
        return Choice::Dense { reason: Reason::Slower(predicted) };
    }
    let name = KernelName::on_gpu(name.family, found.kernel);
    Choice::Sparse { name, predicted: Some(predicted) }
}

/// Chooses the kernel for a convolution with `n` output pixels, as [`select`] does for tokens; on the CPU among those that
/// read windows directly from the images, and [`dense_conv2d`](crate::dense_conv2d).
pub fn select_conv2d(weight: &PackedTensors, n: usize, dtype: DType, device: &Device) -> Choice {
    select_by(weight, n, dtype, device, Costs::choose_conv2d, WORTH_IT_CONV2D)
}

/// Maximum share of kept weights for which a layer trains faster packed than dense on the CPU with at least 128 tokens or images.
const TRAINS_GROUPED: f64 = 0.5;
const TRAINS_ROWS: f64 = 0.4;

/// Returns `true` if forward and backward passes of a linear layer are faster with the packed weight than with the dense one.
pub fn trains_faster(shape: &PackedShape) -> bool {
    shape.rows.min(shape.cols) >= THIN && keeps_few(shape)
}

/// Same as [`trains_faster`], for a convolution.
pub fn trains_faster_conv2d(shape: &PackedShape) -> bool {
    shape.rows >= FEW_ROWS && keeps_few(shape)
}

fn keeps_few(shape: &PackedShape) -> bool {
    let most = match shape.layout {
        Layout::Grouped { .. } => TRAINS_GROUPED,
        Layout::Balanced { .. } | Layout::Rows => TRAINS_ROWS,
    };
    shape.stored as f64 <= most * (shape.rows * shape.cols) as f64
}

fn select_by(
    weight: &PackedTensors,
    n: usize,
    dtype: DType,
    device: &Device,
    on_cpu: fn(&Costs, &PackedShape, usize, Isa) -> Chosen,
    worth_it: f64,
) -> Choice {
    let family = weight.layout.family();
    let unsupported = |reason| Choice::Dense { reason: Reason::Unsupported(reason) };
    let trains = device.is_autodiff();
    let device = device.clone().inner();
    #[cfg(feature = "cubecl-backend")]
    if let burn::backend::DispatchDevice::Cube(device) = device.as_dispatch() {
        if weight.values.dtype() != dtype {
            return unsupported("the GPU kernels read weights of the type of their inputs");
        }
        return match crate::gpu::GpuKernel::unmeasured(&weight.shape(), n, dtype, device) {
            Ok(kernel) => {
                Choice::Sparse { name: KernelName::on_gpu(family, kernel), predicted: None }
            }
            Err(reason) => unsupported(reason),
        };
    }
    if device != Device::flex() {
        return unsupported("no sparse kernel is built for this device");
    }
    if dtype != DType::F32 {
        return unsupported("the CPU kernels compute in f32");
    }
    if !reads(weight.values.dtype()) {
        return unsupported("the CPU kernels read weights in f32, bf16 and f16");
    }
    let isa = Isa::detect();
    let chosen = on_cpu(&Costs::current(), &weight.shape(), n, isa);
    let predicted = Predicted { sparse_us: chosen.sparse * 1e6, dense_us: chosen.dense * 1e6 };
    let few = weight.rows < FEW_ROWS || weight.cols <= FEW_COLS;
    let slower = few || chosen.sparse > worth_it * chosen.dense;
    if slower && !trains {
        return Choice::Dense { reason: Reason::Slower(predicted) };
    }
    let name = KernelName::on_cpu(family, chosen.kernel, isa);
    Choice::Sparse { name, predicted: Some(predicted) }
}

#[cfg(test)]
mod tests {
    use burn_sparse_pattern::{Mask, Packed, Pattern};

    use super::*;

    fn choice(rows: usize, cols: usize) -> Choice {
        let mask = Mask::from_fn(rows, cols, |_, col| col % 8 == 0).unwrap();
        let packed = Packed::pack(&Pattern::unstructured(), &vec![1.0; rows * cols], &mask, None);
        let weight = PackedTensors::from_packed(&packed.unwrap(), &Device::flex());
        select(&weight, 512, DType::F32, &Device::flex())
    }

    #[test]
    fn a_weight_of_few_rows_or_columns_runs_dense() {
        let dense = |choice| matches!(choice, Choice::Dense { reason: Reason::Slower(_) });
        assert!(dense(choice(7, 256)) && dense(choice(256, 8)));
        assert!(!dense(choice(256, 256)));
    }
}
