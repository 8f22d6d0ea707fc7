//! Generates every kernel as CUDA C++ source, without a device, for `tests/gpu/compile.py` to compile.

use cubecl::ir::FloatKind;
use cubecl::prelude::*;
use cubecl::{CubeKernel, define_kernel};
use cubecl_cpp::shared::{CompilationOptions, CppCompiler, CppSupportedFeatures};
use cubecl_cpp::target;
use cubecl_runtime::compiler::Compiler;

use crate::stand_in::Cuda;
use crate::tensor_core::{self, Kernel, Tile, WideTile};
use crate::tiled::{self, Slots, Tiled};
use crate::{Activation, Store, grouped, reduce, transpose};

/// Source of a kernel.
#[derive(Debug, Clone)]
pub struct CudaSource {
    /// Kernel name and configuration.
    pub name: String,
    /// CUDA C++ source.
    pub text: String,
    /// Dynamic shared memory of a launch, in bytes.
    pub shared_bytes: usize,
}

/// Returns the compiler options that the runtime uses on Hopper.
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

/// Generates every kernel in every configuration that dispatch can choose for the patterns' usual sizes.
///
/// # Errors
/// Returns an error, starting with the kernel's name, if a kernel does not compile to CUDA C++.
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
        for vector in [32, 64, 128] {
            for tokens in [1, 16] {
                let kernel = grouped::offline_decode(&cuda, dtype, vector, tokens, store);
                add(format!("grouped-decode-v{vector}-n{tokens}"), &kernel)?;
            }
        }
        for vector in [16, 32, 64, 128] {
            let kernel = grouped::offline_tiles(&cuda, dtype, vector, store);
            add(format!("grouped-tiles-v{vector}"), &kernel)?;
        }
        let balanced = Slots::Balanced { block: 32, kept: 8, per_row: 1024 };
        let listed = Slots::Listed { all: 256 * 1024 };
        for (name, slots) in [("balanced", balanced), ("unstructured", listed)] {
            let weight = Tiled { rows: 4096, cols: 4096, slots };
            for tokens in [1, 16] {
                let kernel = tiled::offline_decode(&cuda, dtype, weight, tokens, store);
                add(format!("{name}-decode-n{tokens}"), &kernel)?;
            }
            add(format!("{name}-rows"), &tiled::offline_rows(&cuda, dtype, weight, store))?;
        }
    }
    for (ty, dtype) in [types[1], bf16] {
        let narrow = [32, 64, 128].into_iter().filter_map(Tile::narrow).map(Kernel::Mma);
        let mma = [32, 64, 128].into_iter().filter_map(Tile::of).map(Kernel::Mma);
        let wide = [64, 128].into_iter().flat_map(WideTile::of).copied().map(Kernel::Wgmma);
        let narrow = narrow.map(|kernel| ("narrow-sliced-", kernel, store));
        // The error function is what makes an epilogue use the most registers.
        let whole = |kernel| [("", kernel, store), ("gelu-", kernel, gelu)];
        for (what, kernel, store) in narrow.chain(mma.chain(wide).flat_map(whole)) {
            let (name, vector, tokens) = (kernel.name(), kernel.vector(), kernel.tokens());
            let name = format!("{name}-{what}v{vector}-n{tokens}-{ty}");
            let sliced = what == "narrow-sliced-";
            let kernel = tensor_core::offline(&cuda, dtype, kernel, sliced, store);
            sources.push(source(name, &*kernel)?);
        }
    }
    Ok(sources)
}
