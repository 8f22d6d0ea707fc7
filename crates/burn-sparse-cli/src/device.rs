use burn::tensor::Device;

/// The device of a name; what this build cannot do is one clear error.
pub(crate) fn device(name: &str) -> Result<Device, String> {
    match name {
        "flex" | "cpu" => Ok(Device::flex()),
        _ if name.starts_with("cuda") || name.starts_with("vulkan") => {
            Err(format!("--device {name}: this build computes on the CPU only; use --device flex"))
        }
        _ => Err(format!("--device {name}: unknown device, expected flex")),
    }
}
