//! What products take on a GPU. There is no model of it: the first call for a weight of some size measures every
//! kernel that may be the fastest, as CubeCL's autotune does for its own, and Burn's dense product beside them.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use burn::backend::DispatchDevice;
use burn::tensor::{DType, Device, Distribution, Tensor};

use super::Kernel;
use crate::flex::measures_nothing;
use crate::functions::{Way, run};
use crate::kernel_name::OnDevice;
use crate::{Activation, Layout, PackedTensors, Predicted};

/// Seconds that one sample takes at least, in which the device's own start is lost.
const SAMPLE: f64 = 2e-3;
/// Calls of a sample at most: what waits on a device takes memory there.
const CALLS: usize = 50;
/// Samples, of which the fastest counts: others are of a device that had something else to do.
const SAMPLES: usize = 3;

/// What a measurement holds for.
#[derive(Debug, Clone, PartialEq)]
struct Size {
    device: Device,
    layout: Layout,
    rows: usize,
    cols: usize,
    kept: usize,
    dtype: DType,
    /// Up to the next power of two.
    tokens: usize,
}

/// The fastest kernel, and what it takes beside the dense product.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) kernel: Kernel,
    pub(crate) predicted: Predicted,
}

/// What has been measured in this process.
static MEASURED: Mutex<Vec<(Size, Option<Measured>)>> = Mutex::new(Vec::new());

/// The fastest kernel for `n` tokens; nothing where the device fails, or nothing is to be measured.
pub(crate) fn measured(
    weight: &PackedTensors,
    n: usize,
    dtype: DType,
    device: &Device,
) -> Option<Measured> {
    // Of no tokens there is nothing to measure.
    if n == 0 || measures_nothing() {
        return None;
    }
    let kept = weight.values.shape().num_elements();
    let PackedTensors { rows, cols, layout, .. } = *weight;
    let tokens = n.next_power_of_two();
    let size = Size { device: device.clone(), layout, rows, cols, kept, dtype, tokens };
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
    let random = |shape| {
        let values = Tensor::<2>::random(shape, Distribution::Uniform(-1.0, 1.0), device);
        values.cast(dtype)
    };
    let x = random([n, weight.cols]);
    let dense = random([weight.cols, weight.rows]);
    let dense = seconds(device, || x.clone().matmul(dense.clone()))?;
    let spec = weight.spec(Activation::None);
    let kernels = Kernel::candidates(&spec, n, dtype, cube).ok()?;
    let timed = kernels.filter_map(|kernel| {
        let way = Way::by(OnDevice::Cube(kernel));
        let product = || run(x.clone(), weight, None, Activation::None, way);
        let sparse = seconds(device, product)?;
        tracing::debug!(?kernel, us = sparse * 1e6, "measured");
        Some((kernel, sparse))
    });
    let (kernel, sparse) = timed.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let predicted = Predicted { sparse_us: sparse * 1e6, dense_us: dense * 1e6 };
    Some(Measured { kernel, predicted })
}

/// Seconds of a call; nothing where the device fails.
fn seconds(device: &Device, call: impl Fn() -> Tensor<2>) -> Option<f64> {
    let sample = |calls: usize| {
        let started = Instant::now();
        // Held until they are there: fusion may leave out what nobody will read.
        let answers: Vec<Tensor<2>> = (0..calls).map(|_| call()).collect();
        device.sync().ok()?;
        drop(answers);
        Some(started.elapsed().as_secs_f64() / calls as f64)
    };
    // The first call compiles the kernel. One that does not compile or run would be the fastest of all: only
    // reading what it has written tells.
    call().try_into_data().ok()?;
    let calls = ((SAMPLE / sample(1)?).ceil() as usize).clamp(1, CALLS);
    let samples: Option<Vec<f64>> = (0..SAMPLES).map(|_| sample(calls)).collect();
    samples?.into_iter().reduce(f64::min)
}
