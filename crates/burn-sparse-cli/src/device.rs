use burn::tensor::{Device, FloatDType};
use clap::Args;

use crate::args::Values;

/// Device and number type of a command.
#[derive(Debug, Args)]
pub(crate) struct Compute {
    /// Device: flex or cpu, or, in builds with that feature, cuda:N, vulkan:N or wgpu:N.
    #[arg(long, default_value = "flex")]
    pub(crate) device: String,
    /// Type that a GPU computes in; the CPU stores weights in it, and computes in f32 or, with w8a8 and w4a8, in 8 bits
    /// [default: f32; on the CPU, as stored].
    #[arg(long, value_enum)]
    pub(crate) values: Option<Values>,
}

impl Compute {
    /// Returns the device, set to the requested number type.
    pub(crate) fn device(&self) -> Result<Device, String> {
        device(&self.device, self.values)
    }
}

/// Returns the device of this name, set to `values`.
///
/// Returns an error if this build or machine has no such device.
pub(crate) fn device(name: &str, values: Option<Values>) -> Result<Device, String> {
    let mut device = found(name).map_err(|reason| format!("--device {name}: {reason}"))?;
    let float = match values {
        None | Some(Values::F32) => return Ok(device),
        Some(Values::F16) => FloatDType::F16,
        Some(Values::Bf16) => FloatDType::BF16,
        Some(Values::W8a8 | Values::W4a8) if device == Device::flex() => return Ok(device),
        Some(values @ (Values::W8a8 | Values::W4a8)) => {
            return Err(format!("--values {} on {name}: 8 bits run on the CPU", values.name()));
        }
    };
    // The CPU computes in f32, whatever type its weights are stored in.
    if device == Device::flex() {
        return Ok(device);
    }
    device.configure(float).map_err(|error| format!("--values: {error}"))?;
    Ok(device)
}

fn found(name: &str) -> Result<Device, String> {
    let (kind, index) = match name.split_once(':') {
        None => (name, 0),
        Some((kind, index)) => {
            (kind, index.parse().map_err(|_| format!("{index:?} is no number of a device"))?)
        }
    };
    match kind {
        "flex" | "cpu" if index == 0 => Ok(Device::flex()),
        "flex" | "cpu" => Err("there is one CPU, number 0".into()),
        "cuda" => cuda(index),
        "vulkan" => vulkan(index),
        "wgpu" => wgpu(index),
        _ => Err("unknown device, expected flex, cuda:N, vulkan:N or wgpu:N".into()),
    }
}

/// Returns the error for a build without a runtime.
#[cfg(not(all(feature = "cuda", feature = "vulkan", feature = "wgpu")))]
fn absent(feature: &str) -> Result<Device, String> {
    Err(format!("this build has no such devices; build with `--features {feature}`, or use flex"))
}

/// Returns the device of this number among those of a runtime.
#[cfg(any(feature = "cuda", feature = "vulkan", feature = "wgpu"))]
fn numbered(kind: burn::tensor::DeviceType, index: usize, missing: &str) -> Result<Device, String> {
    let mut devices = Device::enumerate(kind).into_vec();
    match devices.len() {
        0 => Err(format!("no such device on this machine: {missing}")),
        count if index >= count => Err(format!("this machine has {count}, counted from 0")),
        _ => Ok(devices.swap_remove(index)),
    }
}

#[cfg(feature = "cuda")]
fn cuda(index: usize) -> Result<Device, String> {
    let missing = "no NVIDIA driver was found (libcuda), or it reports no GPU";
    numbered(burn::tensor::DeviceType::Cuda, index, missing)
}

#[cfg(not(feature = "cuda"))]
fn cuda(_index: usize) -> Result<Device, String> {
    absent("cuda")
}

#[cfg(feature = "vulkan")]
fn vulkan(index: usize) -> Result<Device, String> {
    numbered(burn::tensor::DeviceType::Vulkan, index, "no Vulkan driver was found")
}

#[cfg(not(feature = "vulkan"))]
fn vulkan(_index: usize) -> Result<Device, String> {
    absent("vulkan")
}

#[cfg(feature = "wgpu")]
fn wgpu(index: usize) -> Result<Device, String> {
    let missing = "no driver of Vulkan, Metal, DirectX 12 or OpenGL was found";
    numbered(burn::tensor::DeviceType::Wgpu, index, missing)
}

#[cfg(not(feature = "wgpu"))]
fn wgpu(_index: usize) -> Result<Device, String> {
    absent("wgpu")
}
