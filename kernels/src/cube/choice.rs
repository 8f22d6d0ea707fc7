use burn::tensor::DType;
use burn_cubecl::CubeDevice;
use burn_sparse_cube::balanced;
use burn_sparse_cube::grouped;
use burn_sparse_cube::tensor_core::Tile;
use cubecl::features::MmaConfig;
use cubecl::prelude::*;

use crate::Layout;

/// The kernel that runs for a layout and a number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Plain CubeCL, on any runtime.
    Grouped(grouped::Kernel),
    /// `mma.sync` on gathered tiles.
    TensorCore(Tile),
    /// Plain CubeCL, on any runtime.
    Balanced(balanced::Kernel),
}

impl Kernel {
    /// The choice for `n` tokens, or why there is no kernel.
    pub(crate) fn choose(
        layout: Layout,
        n: usize,
        dtype: DType,
        device: &CubeDevice,
    ) -> Result<Self, &'static str> {
        if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
            return Err("the GPU kernels compute in f32, f16 and bf16");
        }
        Ok(match layout {
            Layout::Grouped { vector } => {
                let portable = grouped::Kernel::choose(vector, n);
                match Tile::of(vector) {
                    Some(tile)
                        if portable == grouped::Kernel::Tiles && tensor_cores(dtype, device) =>
                    {
                        Self::TensorCore(tile)
                    }
                    _ => Self::Grouped(portable),
                }
            }
            Layout::Rows => Self::Grouped(grouped::Kernel::choose(1, n)),
            Layout::Balanced { .. } => Self::Balanced(balanced::Kernel::choose(n)),
        })
    }

    /// What reports print: the kernel and how it multiplies.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Grouped(kernel) => (kernel.name(), "portable"),
            Self::TensorCore(_) => ("tiles", "mma"),
            Self::Balanced(kernel) => (kernel.name(), "portable"),
        }
    }
}

/// Whether the device multiplies 16-bit tiles as the kernels ask, through CUDA C++.
fn tensor_cores(dtype: DType, device: &CubeDevice) -> bool {
    let kind = match dtype {
        DType::F16 => FloatKind::F16,
        DType::BF16 => FloatKind::BF16,
        _ => return false,
    };
    let client = device.client();
    let features = &client.properties().features;
    let config = MmaConfig {
        a_type: ElemType::Float(kind).into(),
        b_type: ElemType::Float(kind).into(),
        cd_type: ElemType::Float(FloatKind::F32).into(),
        m: 16,
        n: 8,
        k: 16,
    };
    // Asynchronous copies are on offer where the compiler takes inline PTX, and nowhere else.
    features.copy_async && features.matmul.mma.contains(&config)
}
