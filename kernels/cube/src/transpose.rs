//! Transposes between token-major and feature-major through a tile in shared memory, so that both sides are read
//! and written in whole cache lines.

use cubecl::prelude::*;

use crate::{Buffer, Call, Major};

/// Bytes per row of the square tile: one cache line.
const LINE: usize = 128;
/// Bytes that a unit reads and writes at once if rows are multiples of this size.
const PIECE: usize = 16;
/// Bytes per bank of shared memory.
const WORD: usize = 4;
/// Units per cube.
const UNITS: usize = 256;

/// Returns the number of tokens per feature of a feature-major matrix: `tokens` rounded up to whole 16-byte
/// vectors of f16.
pub fn pitch(tokens: usize) -> usize {
    tokens.div_ceil(8) * 8
}

/// Shapes of the matrices of a transposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Rows of `x`.
    pub rows: usize,
    /// Columns of `x`, rows of `y`.
    pub cols: usize,
    /// Elements from one row of `x` to the next, at least `cols`.
    pub x_pitch: usize,
    /// Elements from one row of `y` to the next, at least `rows`; zeros are written past `rows`.
    pub y_pitch: usize,
}

impl Shape {
    /// Returns the shape for token-major `[tokens, features]` to feature-major `[features][pitch]`.
    pub fn to_features_major(tokens: usize, features: usize) -> Self {
        Self { rows: tokens, cols: features, x_pitch: features, y_pitch: pitch(tokens) }
    }

    /// Returns the shape for feature-major `[features][pitch]` to token-major `[tokens, features]`.
    pub fn to_tokens_major(tokens: usize, features: usize) -> Self {
        Self { rows: features, cols: tokens, x_pitch: pitch(tokens), y_pitch: features }
    }
}

/// Division of a square tile of `side` elements among the units of a cube.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Tile {
    side: usize,
    /// Elements that a unit accesses at once, along a row of either matrix.
    width: usize,
    /// Rows of `x` that a unit carries at once: their elements of a column share one word of shared memory.
    height: usize,
}

impl Tile {
    fn of(dtype: ElemType, shape: Shape) -> Self {
        let side = LINE / dtype.size();
        let piece = PIECE / dtype.size();
        if [shape.x_pitch, shape.y_pitch].iter().all(|pitch| pitch.is_multiple_of(piece)) {
            Self { side, width: piece, height: WORD / dtype.size() }
        } else {
            Self { side, width: 1, height: 1 }
        }
    }

    /// Returns the number of units along a row.
    fn across(&self) -> usize {
        self.side / self.width
    }

    /// Returns the number of rows of `x` that all units carry at once.
    fn rows(&self) -> usize {
        UNITS / self.across() * self.height
    }

    /// Returns the number of rows of `y` that all units carry at once.
    fn cols(&self) -> usize {
        UNITS / self.across()
    }

    /// Returns `true` if words are swizzled (see `bank`). Otherwise, a column is padded by one word. Either way,
    /// writes along columns and reads along rows access different banks.
    fn exchanges(&self) -> bool {
        self.height > 1
    }

    /// Returns the number of words from one column to the next.
    fn pitch(&self) -> usize {
        self.side / self.height + usize::from(!self.exchanges())
    }
}

/// Returns the position of word `word` in its column. Without a swizzle, the eight pieces of a row that a warp
/// writes, and the four columns that it reads, would access the same banks. XORing the position with the index
/// `piece` of the column's piece and with the column's index modulo four, `of_four`, avoids these conflicts.
#[cube]
fn bank(word: usize, piece: usize, of_four: usize, #[comptime] tile: Tile) -> usize {
    if comptime!(tile.exchanges()) { word ^ (piece * 4) ^ of_four } else { word }
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
    let (width, height) = comptime!((tile.width, tile.height));
    let size!(H) = comptime!(tile.height);
    let mut memory = Shared::<[Vector<F, H>]>::new_slice(comptime!(tile.side * tile.pitch()));
    let unit = UNIT_POS as usize;
    let (piece, line) = (unit % comptime!(tile.across()), unit / comptime!(tile.across()));
    let (col, row) = (CUBE_POS_X as usize * tile.side, CUBE_POS_Y as usize * tile.side);
    let from = col + piece * width;
    #[unroll]
    for i in 0..comptime!(tile.side / tile.rows()) {
        let word = line + comptime!(i * tile.cols());
        let mut pieces = Array::<Vector<F, N>>::new(height);
        #[unroll]
        for h in 0..height {
            let at = row + word * height + h;
            pieces[h] = Vector::new(F::new(0.0));
            if at < rows && from < cols {
                pieces[h] = x[(at * x_pitch + from) / width];
            }
        }
        #[unroll]
        for j in 0..width {
            let mut value = Vector::<F, H>::empty();
            #[unroll]
            for h in 0..height {
                value.insert(h, pieces[h].extract(j));
            }
            let to = bank(word, piece, comptime!(j % 4), tile);
            memory[piece * comptime!(width * tile.pitch()) + comptime!(j * tile.pitch()) + to] =
                value;
        }
    }
    sync_cube();
    let from = row + piece * width;
    #[unroll]
    for i in 0..comptime!(tile.side / tile.cols()) {
        let at = line + comptime!(i * tile.cols());
        if col + at < cols && from < y_pitch {
            let first = bank(piece * comptime!(width / height), at / width, 0, tile);
            let mut value = Vector::<F, N>::empty();
            #[unroll]
            for j in 0..comptime!(width / height) {
                let word = at * comptime!(tile.pitch()) + first + bank(j, 0, at % 4, tile);
                #[unroll]
                for h in 0..height {
                    value.insert(comptime!(j * height + h), memory[word].extract(h));
                }
            }
            y[((col + at) * y_pitch + from) / width] = value;
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

/// Returns a call's `x` of `features` features as feature-major, transposed if necessary.
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

/// Calls `write` with a feature-major buffer for a call's `y` of `features` features, and converts the result to
/// the layout that the call requests.
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
