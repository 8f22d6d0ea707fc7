//! Items of `cubecl-llvm` that `cubecl-cuda` refers to, without LLVM; the crate's README explains why.

use std::fmt;

use cubecl_core::prelude::KernelDefinition;
use cubecl_runtime::compiler::{CompilationError, Compiler};
use cubecl_runtime::kernel::BufferIOAttr;

/// Stub of the compiler, which is absent from this build.
#[derive(Clone, Debug)]
pub struct PlironCompiler {
    /// Compilation target.
    pub target: LlvmTarget,
}

/// Compilation targets.
#[derive(Clone, Copy, Debug)]
pub enum LlvmTarget {
    /// NVIDIA GPUs.
    Nvptx,
}

/// Compiler options, none of which is read.
#[derive(Debug, Default)]
pub struct PlironOptions {
    /// AMD architecture.
    pub arch: Option<()>,
    /// NVIDIA architecture.
    pub sm_arch: Option<cubecl_core::ir::nvidia::SmArch>,
    /// PTX version.
    pub ptx_version: Option<nvptx::ptx_version::PtxVersion>,
    /// `true` if scalars are kernel parameters.
    pub grid_constants: bool,
    /// Placeholder so that callers may end with `..Default::default()`.
    pub rest: (),
}

/// Output of a compilation.
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
    /// PTX text.
    pub ptx: Vec<core::ffi::c_char>,
    /// Name of the kernel.
    pub entrypoint: String,
    /// LLVM text that the PTX came from.
    pub ir: String,
    /// Bytes of shared memory.
    pub shared_memory_size: usize,
    /// How the kernel uses its buffers.
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

/// NVIDIA target.
pub mod nvptx {
    /// PTX versions.
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
            /// Returns the newest version that a driver loads: always `None`, because this compiler emits no PTX.
            pub fn for_driver(_driver: i32) -> Option<Self> {
                None
            }
        }
    }
}

/// Items that all targets share.
pub mod shared {
    /// Device features that this compiler lowers.
    pub mod lowered_features {
        /// GPU targets.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub enum GpuTarget {
            /// NVIDIA GPUs.
            Nvptx,
        }

        /// Removes the features that this compiler cannot lower; does nothing, because the C++ compiler lowers
        /// everything.
        pub fn restrict_features(
            _properties: &mut cubecl_core::ir::DeviceProperties,
            _target: GpuTarget,
        ) {
        }
    }
}
