use std::sync::Arc;

use cubecl::ir::features::Features;
use cubecl::ir::{DeviceIdentity, HardwareProperties, MemoryDeviceProperties};
use cubecl::prelude::*;
use cubecl::profile::TimingMethod;
use cubecl_cpp::shared::register_supported_types;

/// Stand-in for a GPU, with an H100's limits.
pub(crate) struct Cuda {
    properties: Arc<DeviceProperties>,
    target: Arc<TargetProperties>,
}

impl Cuda {
    pub(crate) fn new() -> Self {
        let hardware = HardwareProperties {
            load_width: 128,
            vector_register_count: None,
            plane_size_min: 32,
            plane_size_max: 32,
            max_bindings: 32,
            max_shared_memory_size: 227 * 1024,
            max_cube_count: (i32::MAX as u32, u16::MAX.into(), u16::MAX.into()),
            max_units_per_cube: 1024,
            max_cube_dim: (1024, 1024, 64),
            num_streaming_multiprocessors: Some(132),
            num_tensor_cores: Some(4),
            min_tensor_cores_dim: Some(8),
            num_cpu_cores: None,
            last_level_cache_size: None,
            max_vector_size: VectorSize::MAX,
            cube_mma_reserved_shared_memory: 0,
        };
        let identity = DeviceIdentity {
            name: "offline".into(),
            fingerprint: "offline".into(),
            physical: None,
        };
        let mut properties = DeviceProperties::new(
            Features::default(),
            MemoryDeviceProperties::new(u64::MAX, 256),
            hardware,
            TimingMethod::Device,
            identity,
        );
        register_supported_types(&mut properties);
        Self { properties: Arc::new(properties), target: Arc::new(TargetProperties::default()) }
    }

    /// Returns the arguments that every kernel's definition begins with.
    pub(crate) fn start(
        &self,
        dim: CubeDim,
        mode: ExecutionMode,
    ) -> (KernelSettings, Arc<DeviceProperties>, Arc<TargetProperties>) {
        let settings = KernelSettings::new(dim.into(), mode, AddressType::U32);
        (settings, self.properties.clone(), self.target.clone())
    }
}

/// Returns a buffer argument that aliases no other.
pub(crate) fn buffer() -> BufferCompilationArg {
    BufferCompilationArg { inplace: None }
}
