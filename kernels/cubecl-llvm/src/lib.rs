//! What `cubecl-cuda` names of `cubecl-llvm`, without LLVM; the crate's README says why.

use std::fmt;

use cubecl_core::prelude::KernelDefinition;
use cubecl_runtime::compiler::{CompilationError, Compiler};
use cubecl_runtime::kernel::BufferIOAttr;

/// The compiler that is not here.
#[derive(Clone, Debug)]
pub struct PlironCompiler {
    /// What it would compile for.
    pub target: LlvmTarget,
}

/// Targets.
#[derive(Clone, Copy, Debug)]
pub enum LlvmTarget {
    /// NVIDIA's.
    Nvptx,
}

/// Options; none is read.
#[derive(Debug, Default)]
pub struct PlironOptions {
    /// AMD architecture.
    pub arch: Option<()>,
    /// NVIDIA architecture.
    pub sm_arch: Option<cubecl_core::ir::nvidia::SmArch>,
    /// PTX version.
    pub ptx_version: Option<nvptx::ptx_version::PtxVersion>,
    /// Whether scalars are kernel parameters.
    pub grid_constants: bool,
    /// So that callers may end with `..Default::default()`.
    pub rest: (),
}

/// What would come out.
#[derive(Clone, Debug)]
pub enum PlironArtifact {
    /// A module for NVIDIA.
    NvptxCode(NvptxModule),
    /// A module for anything else.
    Other,
}

impl fmt::Display for PlironArtifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no module")
    }
}

/// A PTX module.
#[derive(Clone, Debug)]
pub struct NvptxModule {
    /// Its text.
    pub ptx: Vec<core::ffi::c_char>,
    /// Its kernel.
    pub entrypoint: String,
    /// The LLVM text it came from.
    pub ir: String,
    /// Bytes of shared memory.
    pub shared_memory_size: usize,
    /// What the kernel does with its buffers.
    pub io: Vec<BufferIOAttr>,
}

impl Compiler for PlironCompiler {
    type Representation = PlironArtifact;
    type CompilationOptions = PlironOptions;

    fn compile(
        &mut self,
        _kernel: KernelDefinition,
        _options: &PlironOptions,
    ) -> Result<PlironArtifact, CompilationError> {
        Err(CompilationError::Generic {
            reason: "this build has no LLVM compiler (kernels/cubecl-llvm): enable cubecl/cuda-cpp"
                .into(),
            backtrace: cubecl_environment::backtrace::BackTrace::capture(),
        })
    }

    fn extension(&self) -> &'static str {
        "ptx"
    }

    fn lang_tag(&self) -> &'static str {
        "ptx"
    }
}

/// NVIDIA's target.
pub mod nvptx {
    /// Versions of PTX.
    pub mod ptx_version {
        /// A version of PTX.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct PtxVersion(());

        impl std::fmt::Display for PtxVersion {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("none")
            }
        }

        impl PtxVersion {
            /// The newest version a driver loads: this compiler emits none.
            pub fn for_driver(_driver: i32) -> Option<Self> {
                None
            }
        }
    }
}

/// What all targets share.
pub mod shared {
    /// Features of a device that this compiler lowers.
    pub mod lowered_features {
        /// Targets.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub enum GpuTarget {
            /// NVIDIA's.
            Nvptx,
        }

        /// Takes away what this compiler cannot lower; the C++ compiler lowers everything.
        pub fn restrict_features(
            _properties: &mut cubecl_core::ir::DeviceProperties,
            _target: GpuTarget,
        ) {
        }
    }
}
