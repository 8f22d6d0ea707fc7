use burn::tensor::{DType, Device};

#[cfg(feature = "cubecl-backend")]
use crate::Activation;
use crate::flex::{self, Isa};
use crate::{Choice, KernelName, Layout, PackedTensors, Predicted, Reason};

/// What share of the dense product's time a sparse kernel may be expected to take: expectations are off by
/// some, and to be slower than dense is worse than to miss a little.
const WORTH_IT: f64 = 0.85;

/// The same for thin matrices, of fewer rows or columns than [`THIN`]: blocks and tiles are mostly padding
/// there, so expectations are off by more.
const WORTH_IT_THIN: f64 = 0.5;
const THIN: usize = 64;

/// The same for convolutions, which are measured as such on both sides.
const WORTH_IT_CONV2D: f64 = 0.95;

fn worth_it(weight: &PackedTensors) -> f64 {
    if weight.rows.min(weight.cols) < THIN { WORTH_IT_THIN } else { WORTH_IT }
}

/// Rows below which the dense product is that of a few vectors, for which Burn has kernels of its own, and a convolution
/// thinner than any that is measured.
const FEW_ROWS: usize = 8;

/// Chooses the kernel for `n` tokens of type `dtype`: the one answer that dispatch, reports and
/// benchmarks share.
///
/// On the CPU it rests on the costs of this machine, measured when they are first asked for (three
/// seconds) and kept in the user's cache folder; on a GPU on the products themselves, by every kernel that may be
/// the fastest, measured when a weight of this size and so many tokens, up to the next power of two, are first
/// asked for. `BURN_SPARSE_COSTS=built-in` takes the costs of the machine this was written on, and on a GPU the
/// sparse kernel that is expected to be fastest. On training devices a sparse kernel runs at any cost: the dense
/// product would unpack the weight at every step.
pub fn select(weight: &PackedTensors, n: usize, dtype: DType, device: &Device) -> Choice {
    let choice = select_by(weight, n, dtype, device, flex::choose, worth_it(weight));
    #[cfg(feature = "cubecl-backend")]
    if let Choice::Sparse { name, .. } = choice
        && name.on_device.cube().is_some()
        && !device.is_autodiff()
    {
        return faster(choice, crate::cube::measured(weight, n, dtype, device));
    }
    choice
}

/// The choice once it is known what the products take.
#[cfg(feature = "cubecl-backend")]
fn faster(choice: Choice, found: Option<crate::cube::Measured>) -> Choice {
    let (Choice::Sparse { name, .. }, Some(found)) = (choice, found) else { return choice };
    let predicted = found.predicted;
    if predicted.dense_us < predicted.sparse_us {
        return Choice::Dense { reason: Reason::Slower(predicted) };
    }
    let name = KernelName::on_gpu(name.family, found.kernel);
    Choice::Sparse { name, predicted: Some(predicted) }
}

/// Chooses the kernel for a convolution with `n` output pixels, as [`select`] does for tokens; on the CPU
/// among those that read windows from the pictures themselves, beside [`dense_conv2d`](crate::dense_conv2d).
pub fn select_conv2d(weight: &PackedTensors, n: usize, dtype: DType, device: &Device) -> Choice {
    select_by(weight, n, dtype, device, flex::choose_conv2d, WORTH_IT_CONV2D)
}

fn select_by(
    weight: &PackedTensors,
    n: usize,
    dtype: DType,
    device: &Device,
    on_cpu: fn(&flex::Matrix, usize, Isa) -> flex::Chosen,
    worth_it: f64,
) -> Choice {
    let family = match weight.layout {
        Layout::Grouped { .. } => "grouped",
        Layout::Balanced { .. } => "balanced",
        Layout::Rows => "unstructured",
    };
    let unsupported = |reason| Choice::Dense { reason: Reason::Unsupported(reason) };
    let trains = device.is_autodiff();
    let device = device.clone().inner();
    #[cfg(feature = "cubecl-backend")]
    if let burn::backend::DispatchDevice::Cube(device) = device.as_dispatch() {
        return match crate::cube::Kernel::unmeasured(
            &weight.spec(Activation::None),
            n,
            dtype,
            device,
        ) {
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
    if !flex::reads(weight.values.dtype()) {
        return unsupported("the CPU kernels read weights in f32, bf16 and f16");
    }
    let isa = Isa::detect();
    let chosen = on_cpu(&weight.matrix(), n, isa);
    let predicted = Predicted { sparse_us: chosen.sparse * 1e6, dense_us: chosen.dense * 1e6 };
    let few = weight.rows < FEW_ROWS;
    let slower = few || chosen.sparse > worth_it * chosen.dense;
    if slower && !trains {
        return Choice::Dense { reason: Reason::Slower(predicted) };
    }
    let name = KernelName::on_cpu(family, chosen.kernel, isa);
    Choice::Sparse { name, predicted: Some(predicted) }
}
