use std::sync::{Mutex, PoisonError};

use burn::tensor::DType;
use burn_cubecl::CubeDevice;
use burn_sparse_cpu::TILE_ROWS;
use burn_sparse_cube::tensor_core::{self, Tile, WideTile, proves_itself};
use burn_sparse_cube::transpose::pitch;
use burn_sparse_cube::{grouped, tiled};
use cubecl::features::{MmaConfig, Tma};
use cubecl::ir::FloatKind;
use cubecl::prelude::*;

use crate::{Layout, PackedShape};

/// Kernel that multiplies by a packed weight on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum GpuKernel {
    /// Portable CubeCL, on any runtime.
    Grouped(grouped::Kernel),
    /// Tensor cores on gathered tiles.
    TensorCore(tensor_core::Kernel),
    /// Portable CubeCL, on any runtime.
    Tiled(tiled::Kernel),
}

impl GpuKernel {
    /// Returns the kernel to run for `n` tokens if none has been measured, or the reason why there is none.
    pub(crate) fn unmeasured(
        weight: &PackedShape,
        n: usize,
        dtype: DType,
        device: &CubeDevice,
    ) -> Result<Self, &'static str> {
        let first = Self::candidates(weight, n, dtype, device)?.next();
        first.ok_or("there is no GPU kernel for this layout")
    }

    /// Returns the kernels worth measuring for `n` tokens, starting with the one to run without a measurement, or the
    /// reason why there are none.
    pub(crate) fn candidates(
        weight: &PackedShape,
        n: usize,
        dtype: DType,
        device: &CubeDevice,
    ) -> Result<impl Iterator<Item = Self>, &'static str> {
        if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
            return Err("the GPU kernels compute in f32, f16 and bf16");
        }
        fits(weight, n, device)?;
        let grouped =
            |vector| grouped::Kernel::candidates(vector, n).into_iter().map(Self::Grouped);
        let (tensor_core, portable): (Vec<_>, Vec<_>) = match weight.layout {
            Layout::Grouped { vector } => {
                (tensor_core_kernels(vector, n, dtype, device), grouped(vector).collect())
            }
            Layout::Balanced { .. } | Layout::Rows => {
                let kernels = tiled::Kernel::candidates(n).into_iter();
                (Vec::new(), kernels.map(Self::Tiled).collect())
            }
        };
        let device = device.clone();
        let proved =
            tensor_core.into_iter().filter(move |&kernel| is_proved(kernel, dtype, &device));
        Ok(proved.map(Self::TensorCore).chain(portable))
    }

    /// Returns `true` if activations are feature-major, without a transposition.
    pub(crate) fn is_features_major(self) -> bool {
        match self {
            Self::Grouped(kernel) => kernel.is_features_major(),
            Self::TensorCore(_) => true,
            Self::Tiled(kernel) => kernel.is_features_major(),
        }
    }

    /// Returns the names that reports print: the kernel, and how it multiplies.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Grouped(kernel) => (kernel.name(), "portable"),
            Self::TensorCore(kernel) => (kernel.shape(), kernel.name()),
            Self::Tiled(kernel) => (kernel.name(), "portable"),
        }
    }
}

/// Rejects calls that exceed the launch or indexing limits of a device.
fn fits(weight: &PackedShape, n: usize, device: &CubeDevice) -> Result<(), &'static str> {
    let PackedShape { rows, cols, layout, .. } = *weight;
    let (groups, decodes) = match layout {
        Layout::Grouped { vector } => (rows.div_ceil(vector), vector < 4),
        Layout::Balanced { .. } | Layout::Rows => (rows.div_ceil(TILE_ROWS), false),
    };
    // A decode cube takes 16 tokens. Otherwise, transpositions have the smallest tiles, and either side of
    // their matrix may be along this axis.
    let along_y = if decodes { n.div_ceil(16) } else { n.max(rows).div_ceil(32) };
    let along_x = groups.max(n.max(cols).div_ceil(32));
    let most = device.client().properties().hardware.max_cube_count;
    if along_x > most.0 as usize || along_y > most.1 as usize {
        return Err("this device launches fewer groups of rows, or of tokens, at once");
    }
    if pitch(n).saturating_mul(rows.max(cols)) > u32::MAX as usize {
        return Err("the GPU kernels count the elements of activations in 32 bits");
    }
    Ok(())
}

/// Maximum number of tokens for which reading weights dominates, the case that narrow tensor-core tiles are for.
const FEW: usize = 32;

/// Returns the tensor-core kernels of this device, starting with the one to run without a measurement.
fn tensor_core_kernels(
    vector: usize,
    n: usize,
    dtype: DType,
    device: &CubeDevice,
) -> Vec<tensor_core::Kernel> {
    let Some(float) = element(dtype) else { return Vec::new() };
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
    // Asynchronous copies are available exactly where the compiler takes inline PTX.
    if !features.copy_async || !features.matmul.mma.contains(&config) {
        return Vec::new();
    }
    // Only Hopper has `wgmma`: the previous generation has no TMA, and the next one has more TMA features.
    let hopper = features.tma.contains(Tma::Base) && !features.tma.contains(Tma::Im2colWide);
    // A tile for few tokens reads the weights again for every 16 tokens; fewer than 16 do not fill a tile for many.
    let narrow = Tile::narrow(vector).filter(|_| n <= 8 * FEW).map(tensor_core::Kernel::Mma);
    let wide = if hopper && n > FEW / 2 { WideTile::of(vector) } else { &[] };
    let wide = wide.iter().map(|&tile| tensor_core::Kernel::Wgmma(tile));
    let tile = Tile::of(vector).filter(|_| n > FEW / 2).map(tensor_core::Kernel::Mma);
    let many = wide.chain(tile);
    if n <= FEW { narrow.into_iter().chain(many).collect() } else { many.chain(narrow).collect() }
}

/// Returns the element type for tensor cores, if they are used for it.
fn element(dtype: DType) -> Option<ElemType> {
    match dtype {
        DType::F16 => Some(ElemType::Float(FloatKind::F16)),
        DType::BF16 => Some(ElemType::Float(FloatKind::BF16)),
        _ => None,
    }
}

type Proof = (CubeDevice, DType, tensor_core::Kernel, bool);

/// Kernels that have been tried in this process.
static PROOFS: Mutex<Vec<Proof>> = Mutex::new(Vec::new());

/// Returns `true` if a kernel computes correct results on this device.
fn is_proved(kernel: tensor_core::Kernel, dtype: DType, device: &CubeDevice) -> bool {
    let mut proofs = PROOFS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = proofs.iter().find(|(d, t, k, _)| d == device && *t == dtype && *k == kernel);
    if let Some((.., proved)) = known {
        return *proved;
    }
    let proved = element(dtype).is_some_and(|float| proves_itself(&device.client(), float, kernel));
    if !proved {
        tracing::warn!(?kernel, ?dtype, ?device, "gave a wrong answer or none, and is not used");
    }
    proofs.push((device.clone(), dtype, kernel, proved));
    proved
}
