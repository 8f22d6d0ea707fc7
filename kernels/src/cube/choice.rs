use std::sync::{Mutex, PoisonError};

use burn::tensor::DType;
use burn_cubecl::CubeDevice;
use burn_sparse_cube::tensor_core::{self, Tile, WideTile, proves_itself};
use burn_sparse_cube::{balanced, grouped};
use cubecl::features::{MmaConfig, Tma};
use cubecl::ir::FloatKind;
use cubecl::prelude::*;

use crate::Layout;

/// The kernel that runs for a layout and a number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Plain CubeCL, on any runtime.
    Grouped(grouped::Kernel),
    /// Tensor cores on gathered tiles.
    TensorCore(tensor_core::Kernel),
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
                let portable = Self::Grouped(grouped::Kernel::choose(vector, n));
                tensor_core_kernel(vector, n, dtype, device).map_or(portable, Self::TensorCore)
            }
            Layout::Rows => Self::Grouped(grouped::Kernel::choose(1, n)),
            Layout::Balanced { .. } => Self::Balanced(balanced::Kernel::choose(n)),
        })
    }

    /// What reports print: the kernel and how it multiplies.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Grouped(kernel) => (kernel.name(), "portable"),
            Self::TensorCore(kernel) => (kernel.shape(), kernel.name()),
            Self::Balanced(kernel) => (kernel.name(), "portable"),
        }
    }
}

/// Tokens up to which reading the weights is all the work, and plain units keep up with the memory.
const PLAIN: usize = 4;
/// Tokens up to which a narrow tile holds all of them.
const NARROW: usize = 32;

/// The fastest tensor-core kernel that this device has and that has proved itself on it.
fn tensor_core_kernel(
    vector: usize,
    n: usize,
    dtype: DType,
    device: &CubeDevice,
) -> Option<tensor_core::Kernel> {
    let float = match dtype {
        DType::F16 => ElemType::Float(FloatKind::F16),
        DType::BF16 => ElemType::Float(FloatKind::BF16),
        _ => return None,
    };
    if n <= PLAIN {
        return None;
    }
    let client = device.client();
    let features = &client.properties().features;
    let config = MmaConfig {
        a_type: float,
        b_type: float,
        cd_type: ElemType::Float(FloatKind::F32),
        m: 16,
        n: 8,
        k: 16,
    };
    // Asynchronous copies are on offer where the compiler takes inline PTX, and nowhere else.
    if !features.copy_async || !features.matmul.mma.contains(&config) {
        return None;
    }
    // Hopper alone has `wgmma`: the generation before has no TMA, the one after has more of it.
    let hopper = features.tma.contains(Tma::Base) && !features.tma.contains(Tma::Im2colWide);
    let wide = WideTile::of(vector).filter(|_| hopper && n > NARROW);
    let tile = if n > NARROW { Tile::of(vector) } else { Tile::narrow(vector) };
    let mut kernels =
        wide.map(tensor_core::Kernel::Wgmma).into_iter().chain(tile.map(tensor_core::Kernel::Mma));
    kernels.find(|&kernel| is_proved(kernel, dtype, device, &client, float))
}

type Proof = (CubeDevice, DType, tensor_core::Kernel, bool);

/// What has been tried in this process.
static PROOFS: Mutex<Vec<Proof>> = Mutex::new(Vec::new());

fn is_proved(
    kernel: tensor_core::Kernel,
    dtype: DType,
    device: &CubeDevice,
    client: &Client,
    float: ElemType,
) -> bool {
    let mut proofs = PROOFS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = proofs.iter().find(|(d, t, k, _)| d == device && *t == dtype && *k == kernel);
    if let Some((.., proved)) = known {
        return *proved;
    }
    let proved = proves_itself(client, float, kernel);
    proofs.push((device.clone(), dtype, kernel, proved));
    proved
}
