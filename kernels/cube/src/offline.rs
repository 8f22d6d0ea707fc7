//! Every kernel as CUDA C++ text, without a device: what `tests/gpu/compile.py` compiles.

use std::sync::Arc;

use cubecl::ir::features::Features;
use cubecl::ir::{DeviceIdentity, FloatKind, HardwareProperties, MemoryDeviceProperties};
use cubecl::prelude::*;
use cubecl::profile::TimingMethod;
use cubecl::{CubeKernel, define_kernel};
use cubecl_cpp::shared::{
    CompilationOptions, CppCompiler, CppSupportedFeatures, register_supported_types,
};
use cubecl_cpp::target;
use cubecl_runtime::compiler::Compiler;

use crate::balanced::{self, Balanced};
use crate::tensor_core::{self, Kernel, Tile, WideTile};
use crate::{Activation, Store, grouped, reduce, transpose};

/// A kernel's text.
#[derive(Debug, Clone)]
pub struct CudaSource {
    /// Kernel and configuration.
    pub name: String,
    /// CUDA C++.
    pub text: String,
    /// Dynamic shared memory of a launch, in bytes.
    pub shared_bytes: usize,
}

/// Stands in for a GPU: an H100's limits.
pub(crate) struct Cuda {
    properties: Arc<DeviceProperties>,
    target: Arc<TargetProperties>,
}

impl Cuda {
    fn new() -> Self {
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

    /// What every kernel's definition begins with.
    pub(crate) fn start(
        &self,
        dim: CubeDim,
        mode: ExecutionMode,
    ) -> (KernelSettings, Arc<DeviceProperties>, Arc<TargetProperties>) {
        let settings = KernelSettings::new(dim.into(), mode, AddressType::U32);
        (settings, self.properties.clone(), self.target.clone())
    }
}

/// A buffer argument that aliases no other.
pub(crate) fn buffer() -> BufferCompilationArg {
    BufferCompilationArg { inplace: None }
}

/// What the runtime asks of the compiler on Hopper.
fn options() -> CompilationOptions {
    let supports_features = CppSupportedFeatures {
        grid_constants: true,
        clusters: true,
        fast_math: true,
        fast_tanh: true,
        elect_sync: true,
        dp4a: true,
    };
    CompilationOptions { supports_features, ..CompilationOptions::default() }
}

fn source(name: String, kernel: &dyn CubeKernel) -> Result<CudaSource, String> {
    let compile = || {
        let definition = define_kernel(kernel)?;
        CppCompiler::<target::Cuda>::default().compile(definition, &options())
    };
    let compiled = compile().map_err(|error| format!("{name}: {error}"))?;
    Ok(CudaSource { name, text: compiled.source, shared_bytes: compiled.shared_memory_size })
}

/// Every kernel in every configuration that dispatch can choose for the patterns' usual sizes.
///
/// # Errors
/// When a kernel does not compile to CUDA C++; its name comes first.
pub fn cuda_sources() -> Result<Vec<CudaSource>, String> {
    let cuda = Cuda::new();
    let store = Store { bias: true, activation: Activation::Relu };
    let gelu = Store { activation: Activation::Gelu, ..store };
    let float = ElemType::Float;
    let types = [("f32", float(FloatKind::F32)), ("f16", float(FloatKind::F16))];
    let bf16 = ("bf16", float(FloatKind::BF16));
    let mut sources = Vec::new();
    for (ty, dtype) in [types[0], types[1], bf16] {
        let mut add = |name: String, kernel: &dyn CubeKernel| {
            sources.push(source(format!("{name}-{ty}"), kernel)?);
            Ok::<(), String>(())
        };
        add("transpose".into(), &transpose::offline(&cuda, dtype))?;
        add("reduce".into(), &reduce::offline(&cuda, dtype, store))?;
        for vector in [1, 32, 64, 128] {
            for tokens in [1, 16] {
                let kernel = grouped::offline_decode(&cuda, dtype, vector, tokens, store);
                add(format!("grouped-decode-v{vector}-n{tokens}"), &kernel)?;
            }
        }
        for vector in [16, 32, 64, 128] {
            let kernel = grouped::offline_tiles(&cuda, dtype, vector, store);
            add(format!("grouped-tiles-v{vector}"), &kernel)?;
        }
        let weight = Balanced { rows: 4096, cols: 4096, block: 32, kept: 8, per_row: 1024 };
        for tokens in [1, 16] {
            let kernel = balanced::offline_decode(&cuda, dtype, weight, tokens, store);
            add(format!("balanced-decode-n{tokens}"), &kernel)?;
        }
        add("balanced-rows".into(), &balanced::offline_rows(&cuda, dtype, weight, store))?;
    }
    for (ty, dtype) in [types[1], bf16] {
        let narrow = [32, 64, 128].into_iter().filter_map(Tile::narrow).map(Kernel::Mma);
        let mma = [32, 64, 128].into_iter().filter_map(Tile::of).map(Kernel::Mma);
        let wide = [64, 128].into_iter().filter_map(WideTile::of).map(Kernel::Wgmma);
        let narrow = narrow.map(|kernel| ("narrow-sliced-", kernel, store));
        // An error function is what an epilogue takes most registers for.
        let whole = |kernel| [("", kernel, store), ("gelu-", kernel, gelu)];
        for (what, kernel, store) in narrow.chain(mma.chain(wide).flat_map(whole)) {
            let name = format!("{}-{what}v{}-{ty}", kernel.name(), kernel.vector());
            let sliced = what == "narrow-sliced-";
            let kernel = tensor_core::offline(&cuda, dtype, kernel, sliced, store);
            sources.push(source(name, &*kernel)?);
        }
    }
    Ok(sources)
}
