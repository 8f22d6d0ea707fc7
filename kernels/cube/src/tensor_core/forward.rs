use cubecl::prelude::*;

use super::instructions::Element;
use super::mma::mma_kernel;
use super::ring::{PIECE, Ring};
use super::wgmma::wgmma_kernel;
use super::{Engine, Tile, WideTile};
use crate::grouped::Grouped;
use crate::reduce::{Cubes, Partial, reduce};
use crate::transpose::{self, pitch};
use crate::{Buffer, Call};

/// Kernels of this family, with their tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// `mma.sync`, for sm_80 and later.
    Mma(Tile),
    /// `wgmma`, for sm_90.
    Wgmma(WideTile),
}

impl Kernel {
    /// Returns the number of rows per group that the kernel supports.
    pub fn vector(self) -> usize {
        self.ring().vector
    }

    /// Returns the number of tokens per tile.
    pub fn tokens(self) -> usize {
        self.ring().tokens
    }

    /// Returns the kernel's name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mma(_) => "mma",
            Self::Wgmma(_) => "wgmma",
        }
    }

    /// Returns the name of the tiles' purpose for reports.
    pub fn shape(self) -> &'static str {
        match self {
            Self::Mma(tile) if Tile::narrow(tile.vector) == Some(tile) => "decode",
            Self::Mma(_) | Self::Wgmma(_) => "tiles",
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

/// Computes `y` from `x`.
///
/// If the groups alone do not fill the device, `mma` splits their kept columns into slices; `slices` overrides the
/// number of slices.
///
/// # Panics
/// Panics if the tile does not fit the weight, or if the dtype is not f16 or bf16.
pub fn forward(
    call: &Call<'_>,
    weight: Grouped,
    kernel: Kernel,
    engine: Engine,
    slices: Option<usize>,
) {
    let Call { client, dtype, operands, tokens, .. } = *call;
    let Grouped { rows, cols, vector } = weight;
    let ring = kernel.ring();
    let groups = rows.div_ceil(vector);
    let room = (tokens, groups * vector);
    let partial = match kernel {
        Kernel::Wgmma(_) => None,
        Kernel::Mma(_) => {
            let cubes = Cubes {
                count: groups * tokens.div_ceil(ring.tokens),
                threads: ring.threads,
                shared: ring.bytes(dtype.size()),
                // A slice of one stage could not overlap copies with the multiplication.
                slices: operands.index.len / groups / (2 * ring.depth),
            };
            Partial::of(client, slices, &cubes, room)
        }
    };
    let x = transpose::input(call, cols);
    match partial {
        Some(partial) => {
            let unused = Buffer::empty(client, PIECE, dtype.size());
            launch(call, [&x, &unused], weight, kernel, engine, Some(&partial));
            reduce(call, &partial, rows);
        }
        None => transpose::output(call, rows, |y| {
            assert!(y.len >= rows * pitch(tokens), "y: {} elements", y.len);
            launch(call, [&x, y], weight, kernel, engine, None);
        }),
    }
}

/// Computes `y [rows][pitch]`, or partial sums, from `x [cols][pitch]`.
fn launch(
    call: &Call<'_>,
    [x, y]: [&Buffer; 2],
    weight: Grouped,
    kernel: Kernel,
    engine: Engine,
    partial: Option<&Partial>,
) {
    let Call { client, dtype, operands, tokens, store, .. } = *call;
    let Grouped { rows, cols, vector } = weight;
    let ring = kernel.ring();
    assert_eq!(ring.vector, vector, "a tile for groups of {} rows", ring.vector);
    let groups = rows.div_ceil(vector);
    assert!(operands.offsets.len > groups, "{} offsets", operands.offsets.len);
    assert!(x.len >= cols * pitch(tokens), "x: {} elements", x.len);
    assert!(operands.values.len >= operands.index.len * vector, "values");
    assert!(!call.ordered() || operands.order.len >= rows, "row order");
    assert!(!store.bias || operands.bias.len >= rows, "bias");
    let tiles = tokens.div_ceil(ring.tokens) as u32;
    let slices = partial.map_or(1, |partial| partial.slices) as u32;
    let sums = partial.map_or(y, |partial| &partial.sums);
    // Both kernels take the same operands, except for the slices.
    macro_rules! launch {
        ($kernel:ident, $tile:expr; $($run_time:expr),*; $($comptime:expr),*) => {
            // SAFETY: groups and tokens are clamped to the lengths asserted above and by the callers, ids to
            // `cols`, and rows to `rows`; the offsets are those of a checked weight.
            unsafe {
                $kernel::launch_unchecked(
                    client,
                    CubeCount::Static(groups as u32, tiles, slices),
                    CubeDim::new_1d(ring.threads as u32),
                    AddressType::U32,
                    x.arg(),
                    operands.values.arg(),
                    operands.index.arg(),
                    operands.offsets.arg(),
                    operands.order.arg(),
                    operands.bias.arg(),
                    y.words(PIECE),
                    $($run_time,)*
                    pitch(tokens),
                    rows,
                    cols,
                    $tile,
                    call.ordered(),
                    $($comptime,)*
                    store,
                    Element::of(dtype),
                    engine,
                    dtype,
                )
            }
        };
    }
    match kernel {
        Kernel::Mma(tile) => {
            launch!(mma_kernel, tile; sums.arg(), tokens; partial.is_some());
        }
        Kernel::Wgmma(tile) => launch!(wgmma_kernel, tile; ; ),
    }
}

#[cfg(feature = "offline")]
pub(crate) fn offline(
    cuda: &crate::stand_in::Cuda,
    dtype: ElemType,
    kernel: Kernel,
    sliced: bool,
    store: crate::Store,
) -> Box<dyn cubecl::CubeKernel> {
    let dim = CubeDim::new_1d(kernel.ring().threads as u32);
    let (settings, properties, target) = cuda.start(dim, ExecutionMode::Unchecked);
    let b = crate::stand_in::buffer;
    macro_rules! define {
        ($kernel:path, $tile:expr; $($run_time:expr),*; $($comptime:expr),*) => {{
            use $kernel as Kernel;
            Box::new(Kernel::new(
                settings, properties, target, b(), b(), b(), b(), b(), b(), b(), $($run_time,)* (), (),
                (), $tile, true, $($comptime,)* store, Element::of(dtype), Engine::Ptx, dtype,
            ))
        }};
    }
    match kernel {
        Kernel::Mma(tile) => define!(mma_kernel::MmaKernel, tile; b(), (); sliced),
        Kernel::Wgmma(tile) => define!(wgmma_kernel::WgmmaKernel, tile; ; ),
    }
}
