use cubecl::prelude::*;

use super::instructions::Element;
use super::mma::mma_kernel;
use super::ring::{PIECE, Ring};
use super::wgmma::wgmma_kernel;
use super::{Engine, Tile, WideTile};
use crate::grouped::Grouped;
use crate::transpose::pitch;
use crate::{Buffer, Operands, Store};

/// The kernels of this family and their tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// `mma.sync`, from sm_80 on.
    Mma(Tile),
    /// `wgmma`, on sm_90.
    Wgmma(WideTile),
}

impl Kernel {
    /// Rows of the groups it is for.
    pub fn vector(self) -> usize {
        self.ring().vector
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mma(_) => "mma",
            Self::Wgmma(_) => "wgmma",
        }
    }

    fn ring(self) -> Ring {
        match self {
            Self::Mma(tile) => {
                tile.check();
                tile.ring()
            }
            Self::Wgmma(tile) => {
                tile.check();
                tile.ring()
            }
        }
    }
}

/// `y [rows][pitch]` from `x [cols][pitch]`, both features-major, `pitch` that of `tokens`.
///
/// # Panics
/// When the tile does not fit the weight, or the type is not of 16 bits.
#[allow(clippy::too_many_arguments)]
pub fn forward(
    client: &Client,
    dtype: ElemType,
    weight: Grouped,
    operands: &Operands,
    y: &Buffer,
    tokens: usize,
    store: Store,
    kernel: Kernel,
    engine: Engine,
) {
    let Grouped { rows, cols, vector } = weight;
    let ring = kernel.ring();
    assert_eq!(ring.vector, vector, "a tile for groups of {} rows", ring.vector);
    let groups = rows.div_ceil(vector);
    assert!(operands.offsets.len > groups, "{} offsets", operands.offsets.len);
    assert!(operands.x.len >= cols * pitch(tokens) && y.len >= rows * pitch(tokens), "lengths");
    assert!(operands.values.len >= operands.index.len * vector, "values");
    // Both kernels take the same operands.
    macro_rules! launch {
        ($kernel:ident, $tile:expr) => {
            // SAFETY: groups and tokens are clamped to the lengths asserted above, ids to `cols`, rows to
            // `rows`; the offsets are those of a checked weight.
            unsafe {
                $kernel::launch_unchecked(
                    client,
                    CubeCount::Static(groups as u32, tokens.div_ceil(ring.tokens) as u32, 1),
                    CubeDim::new_1d(ring.threads as u32),
                    AddressType::U32,
                    operands.x.arg(),
                    operands.values.arg(),
                    operands.index.arg(),
                    operands.offsets.arg(),
                    operands.order.arg(),
                    operands.bias.arg(),
                    y.words(PIECE),
                    pitch(tokens),
                    rows,
                    cols,
                    $tile,
                    operands.order.len > 0,
                    store,
                    Element::of(dtype),
                    engine,
                    dtype,
                )
            }
        };
    }
    match kernel {
        Kernel::Mma(tile) => launch!(mma_kernel, tile),
        Kernel::Wgmma(tile) => launch!(wgmma_kernel, tile),
    }
}

#[cfg(feature = "offline")]
pub(crate) fn offline(
    cuda: &crate::offline::Cuda,
    dtype: ElemType,
    kernel: Kernel,
    store: Store,
) -> Box<dyn cubecl::CubeKernel> {
    let dim = CubeDim::new_1d(kernel.ring().threads as u32);
    let (settings, properties, target) = cuda.start(dim, ExecutionMode::Unchecked);
    let b = crate::offline::buffer;
    macro_rules! define {
        ($kernel:path, $tile:expr) => {{
            use $kernel as Kernel;
            Box::new(Kernel::new(
                settings,
                properties,
                target,
                b(),
                b(),
                b(),
                b(),
                b(),
                b(),
                b(),
                (),
                (),
                (),
                $tile,
                true,
                store,
                Element::of(dtype),
                Engine::Ptx,
                dtype,
            ))
        }};
    }
    match kernel {
        Kernel::Mma(tile) => define!(mma_kernel::MmaKernel, tile),
        Kernel::Wgmma(tile) => define!(wgmma_kernel::WgmmaKernel, tile),
    }
}
