//! Time of products on a GPU. There is no model: the first call for a weight of some size measures every kernel that may
//! be the fastest, as CubeCL's autotune does, and Burn's dense product.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use burn::backend::DispatchDevice;
use burn::tensor::{DType, Device, Tensor};

use super::cells::tensor;
use crate::choice::Predicted;
use crate::cost::Costs;
use crate::gpu::GpuKernel;
use crate::kernel_name::OnDevice;
use crate::linear::{Dispatch, run};
use crate::{Activation, PackedShape, PackedTensors};

/// Minimum seconds of a sample, so that launch latency is negligible.
const SAMPLE: f64 = 2e-3;
/// Maximum calls of a sample: queued results take memory on the device.
const CALLS: usize = 50;
/// Number of samples, of which the fastest counts.
const SAMPLES: usize = 3;

/// Key of a measurement.
#[derive(Debug, Clone, PartialEq)]
struct Size {
    device: Device,
    shape: PackedShape,
    dtype: DType,
    /// Rounded up to the next power of two.
    tokens: usize,
}

/// Fastest kernel, and the measured times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) kernel: GpuKernel,
    pub(crate) predicted: Predicted,
}

/// Measurements of this process.
static MEASURED: Mutex<Vec<(Size, Option<Measured>)>> = Mutex::new(Vec::new());

/// Returns the fastest kernel for `n` tokens; `None` if the device fails or measuring is not allowed.
pub(crate) fn measured(
    weight: &PackedTensors,
    n: usize,
    dtype: DType,
    device: &Device,
) -> Option<Measured> {
    if n == 0 || !Costs::current().times_gpus() {
        return None;
    }
    let tokens = n.next_power_of_two();
    let size = Size { device: device.clone(), shape: weight.shape(), dtype, tokens };
    let mut measured = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = measured.iter().find(|(known, _)| *known == size) {
        return *found;
    }
    let found = measure(weight, n, dtype, device);
    tracing::debug!(?size, ?found, "measured");
    measured.push((size, found));
    found
}

fn measure(weight: &PackedTensors, n: usize, dtype: DType, device: &Device) -> Option<Measured> {
    let DispatchDevice::Cube(cube) = device.as_dispatch() else { return None };
    let tensor = |shape: [usize; 2]| tensor(shape).to_device(device).cast(dtype);
    let x = tensor([n, weight.cols]);
    let dense = tensor([weight.cols, weight.rows]);
    let dense = seconds(device, || x.clone().matmul(dense.clone()))?;
    let shape = weight.shape();
    let kernels = GpuKernel::candidates(&shape, n, dtype, cube).ok()?;
    let timed = kernels.filter_map(|kernel| {
        let dispatch = Dispatch::by(OnDevice::Gpu(kernel));
        let product = || run(x.clone(), weight, None, Activation::None, dispatch);
        let sparse = seconds(device, product)?;
        tracing::debug!(?kernel, us = sparse * 1e6, "measured");
        Some((kernel, sparse))
    });
    let (kernel, sparse) = timed.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let predicted = Predicted { sparse_us: sparse * 1e6, dense_us: dense * 1e6 };
    Some(Measured { kernel, predicted })
}

/// Measures the seconds of a call; `None` if the device fails.
fn seconds(device: &Device, call: impl Fn() -> Tensor<2>) -> Option<f64> {
    let sample = |calls: usize| {
        let started = Instant::now();
        // Keeps results until they are computed: fusion may skip those that are dropped.
        let answers: Vec<Tensor<2>> = (0..calls).map(|_| call()).collect();
        device.sync().ok()?;
        drop(answers);
        Some(started.elapsed().as_secs_f64() / calls as f64)
    };
    // The first call compiles the kernel. Reading its result detects kernels that fail to compile or run, which would
    // otherwise seem to be the fastest.
    call().try_into_data().ok()?;
    let calls = ((SAMPLE / sample(1)?).ceil() as usize).clamp(1, CALLS);
    let samples: Option<Vec<f64>> = (0..SAMPLES).map(|_| sample(calls)).collect();
    samples?.into_iter().reduce(f64::min)
}
