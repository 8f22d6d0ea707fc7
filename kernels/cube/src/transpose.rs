//! Tokens-major to features-major and back, through a tile in shared memory so that both sides are
//! read and written in whole lines.

use cubecl::prelude::*;

use crate::{Buffer, Call, Major};

/// Bytes of a row of the square tile: a line of every cache.
const LINE: usize = 128;
/// Bytes that a unit reads and writes at once where rows are whole pieces.
const PIECE: usize = 16;
/// Units of a cube.
const UNITS: usize = 256;

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

/// How a cube divides a square tile of `side` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Tile {
    side: usize,
    /// Elements of a unit at once.
    width: usize,
}

impl Tile {
    fn of(dtype: ElemType, shape: Shape) -> Self {
        let piece = PIECE / dtype.size();
        let whole = [shape.x_pitch, shape.y_pitch].iter().all(|pitch| pitch.is_multiple_of(piece));
        Self { side: LINE / dtype.size(), width: if whole { piece } else { 1 } }
    }

    /// Units along a row.
    fn across(&self) -> usize {
        self.side / self.width
    }

    /// Rows that the units carry at once.
    fn lines(&self) -> usize {
        UNITS / self.across()
    }

    /// Elements from one row to the next: one more than it has, so that reading a column meets as many banks
    /// as units.
    fn pitch(&self) -> usize {
        self.side + 1
    }
}

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn transpose_kernel<F: Float, N: Size>(
    x: &[Vector<F, N>],
    y: &mut [Vector<F, N>],
    rows: usize,
    cols: usize,
    x_pitch: usize,
    y_pitch: usize,
    #[comptime] tile: Tile,
    #[define(F)] _dtype: ElemType,
) {
    let (width, pitch) = comptime!((tile.width, tile.pitch()));
    let mut memory = Shared::<[F]>::new_slice(comptime!(tile.side * tile.pitch()));
    let unit = UNIT_POS as usize;
    let (piece, line) = (unit % comptime!(tile.across()) * width, unit / comptime!(tile.across()));
    let (col, row) = (CUBE_POS_X as usize * tile.side, CUBE_POS_Y as usize * tile.side);
    #[unroll]
    for i in 0..comptime!(tile.side / tile.lines()) {
        let at = line + comptime!(i * tile.lines());
        let mut value = Vector::<F, N>::new(F::new(0.0));
        if row + at < rows && col + piece < cols {
            value = x[((row + at) * x_pitch + col + piece) / width];
        }
        #[unroll]
        for j in 0..width {
            memory[at * pitch + piece + j] = value.extract(j);
        }
    }
    sync_cube();
    #[unroll]
    for i in 0..comptime!(tile.side / tile.lines()) {
        let at = line + comptime!(i * tile.lines());
        if col + at < cols && row + piece < y_pitch {
            let mut value = Vector::<F, N>::empty();
            #[unroll]
            for j in 0..width {
                value.insert(j, memory[(piece + j) * pitch + at]);
            }
            y[((col + at) * y_pitch + row + piece) / width] = value;
        }
    }
}

fn dim() -> CubeDim {
    CubeDim::new_1d(UNITS as u32)
}

/// Launches `y = xᵀ`.
pub fn transpose(client: &Client, dtype: ElemType, x: &Buffer, y: &Buffer, shape: Shape) {
    let tile = Tile::of(dtype, shape);
    let Shape { rows, cols, x_pitch, y_pitch } = shape;
    let count = |size: usize| size.div_ceil(tile.side) as u32;
    transpose_kernel::launch(
        client,
        CubeCount::Static(count(cols), count(y_pitch), 1),
        dim(),
        AddressType::U32,
        tile.width,
        x.words(tile.width),
        y.words(tile.width),
        rows,
        cols,
        x_pitch,
        y_pitch,
        tile,
        dtype,
    );
}

/// A call's `x` of so many features, features-major.
pub(crate) fn input(call: &Call<'_>, features: usize) -> Buffer {
    let Call { client, dtype, operands, tokens, .. } = *call;
    match call.x_major {
        Major::Features => operands.x.clone(),
        Major::Tokens => {
            let x = Buffer::empty(client, features * pitch(tokens), dtype.size());
            transpose(client, dtype, &operands.x, &x, Shape::to_features_major(tokens, features));
            x
        }
    }
}

/// Has a call's `y` of so many features written features-major, and leaves it as the call asks.
pub(crate) fn output(call: &Call<'_>, features: usize, write: impl FnOnce(&Buffer)) {
    let Call { client, dtype, y, tokens, .. } = *call;
    match call.y_major {
        Major::Features => write(y),
        Major::Tokens => {
            let inside = Buffer::empty(client, features * pitch(tokens), dtype.size());
            write(&inside);
            transpose(client, dtype, &inside, y, Shape::to_tokens_major(tokens, features));
        }
    }
}

#[cfg(feature = "offline")]
pub(crate) fn offline(cuda: &crate::stand_in::Cuda, dtype: ElemType) -> impl cubecl::CubeKernel {
    let (settings, properties, target) = cuda.start(dim(), ExecutionMode::Checked);
    let b = crate::stand_in::buffer;
    let tile = Tile::of(dtype, Shape::to_features_major(64, 64));
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
        tile.width,
        tile,
        dtype,
    )
}
