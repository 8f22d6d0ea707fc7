//! Tokens-major to features-major and back, through a tile in shared memory so that both sides are
//! read and written in whole lines.

use cubecl::prelude::*;

use crate::{Buffer, Call};

/// Side of the square tile.
const TILE: usize = 32;
/// Rows of the tile that the units of a cube carry at once.
const LANES: usize = 8;

/// Tokens per feature of a features-major matrix: `tokens` in whole vectors of 16 bytes of f16.
pub fn pitch(tokens: usize) -> usize {
    tokens.div_ceil(8) * 8
}

/// The matrices of a transposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Rows of `x`.
    pub rows: usize,
    /// Columns of `x`, rows of `y`.
    pub cols: usize,
    /// Elements from one row of `x` to the next, at least `cols`.
    pub x_pitch: usize,
    /// Elements from one row of `y` to the next, at least `rows`; zeros are written beyond those.
    pub y_pitch: usize,
}

impl Shape {
    /// Tokens-major `[tokens, features]` to features-major `[features][pitch]`.
    pub fn to_features_major(tokens: usize, features: usize) -> Self {
        Self { rows: tokens, cols: features, x_pitch: features, y_pitch: pitch(tokens) }
    }

    /// Features-major `[features][pitch]` to tokens-major `[tokens, features]`.
    pub fn to_tokens_major(tokens: usize, features: usize) -> Self {
        Self { rows: features, cols: tokens, x_pitch: pitch(tokens), y_pitch: features }
    }
}

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn transpose_kernel<F: Float>(
    x: &[F],
    y: &mut [F],
    rows: usize,
    cols: usize,
    x_pitch: usize,
    y_pitch: usize,
    #[define(F)] _dtype: ElemType,
) {
    // One more column than the tile has: reading a column then meets as many banks as units.
    let mut tile = Shared::<[F]>::new_slice(comptime!(TILE * (TILE + 1)));
    let (lane, line) = (UNIT_POS_X as usize, UNIT_POS_Y as usize);
    let (col, row) = (CUBE_POS_X as usize * TILE, CUBE_POS_Y as usize * TILE);
    #[unroll]
    for i in 0..comptime!(TILE / LANES) {
        let at = line + i * LANES;
        let mut value = F::new(0.0);
        if row + at < rows && col + lane < cols {
            value = x[(row + at) * x_pitch + col + lane];
        }
        tile[at * comptime!(TILE + 1) + lane] = value;
    }
    sync_cube();
    #[unroll]
    for i in 0..comptime!(TILE / LANES) {
        let at = line + i * LANES;
        if col + at < cols && row + lane < y_pitch {
            y[(col + at) * y_pitch + row + lane] = tile[lane * comptime!(TILE + 1) + at];
        }
    }
}

fn dim() -> CubeDim {
    CubeDim::new_2d(TILE as u32, LANES as u32)
}

/// Launches `y = xᵀ`.
pub fn transpose(client: &Client, dtype: ElemType, x: &Buffer, y: &Buffer, shape: Shape) {
    let Shape { rows, cols, x_pitch, y_pitch } = shape;
    let count = |size: usize| size.div_ceil(TILE) as u32;
    transpose_kernel::launch(
        client,
        CubeCount::Static(count(cols), count(y_pitch), 1),
        dim(),
        AddressType::U32,
        x.arg(),
        y.arg(),
        rows,
        cols,
        x_pitch,
        y_pitch,
        dtype,
    );
}

/// A call's `x [tokens, features]`, features-major.
pub(crate) fn features_major(call: &Call<'_>, features: usize) -> Buffer {
    let Call { client, dtype, operands, tokens, .. } = *call;
    let x = Buffer::empty(client, features * pitch(tokens), dtype.size());
    transpose(client, dtype, &operands.x, &x, Shape::to_features_major(tokens, features));
    x
}

#[cfg(feature = "offline")]
pub(crate) fn offline(cuda: &crate::offline::Cuda, dtype: ElemType) -> impl cubecl::CubeKernel {
    let (settings, properties, target) = cuda.start(dim(), ExecutionMode::Checked);
    let b = crate::offline::buffer;
    transpose_kernel::TransposeKernel::new(
        settings,
        properties,
        target,
        b(),
        b(),
        (),
        (),
        (),
        (),
        dtype,
    )
}
