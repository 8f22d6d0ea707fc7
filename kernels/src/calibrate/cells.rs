//! Cells of the timed table: products and convolutions, dense and with every kernel.

use std::hint::black_box;

use burn::tensor::module::linear;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use burn_sparse_cpu::{CpuKernel, Isa, TILE_ROWS};

use crate::cost::curves::{BLOCKS, DENSE, VECTORS, subject, terms};
use crate::kernel_name::{KernelName, OnDevice};
use crate::linear::{Dispatch, run};
use crate::packed::OnCpu;
use crate::{Activation, Checked, Layout, PackedTensors, Window, dense_conv2d, sparse_conv2d};

pub(super) const TOKENS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Rows, columns, and kept weights out of 16: large and small, dense and sparse, wide and tall.
const WEIGHTS: [(usize, usize, usize); 6] =
    [(32, 32, 8), (384, 384, 8), (384, 384, 1), (1024, 1024, 4), (32, 1536, 4), (1536, 32, 4)];

/// Number of images, their height, and their width.
pub(super) const PIXELS: [[usize; 3]; 6] =
    [[1, 1, 1], [1, 4, 4], [1, 8, 8], [1, 16, 16], [1, 32, 32], [8, 32, 32]];

/// Outputs, inputs, and kept weights out of 16 of convolutions with 3×3 kernels. Blocks of 32 divide all of them.
const KERNELS: [(usize, usize, usize); 8] = [
    (16, 32, 4),
    (32, 32, 8),
    (32, 32, 2),
    (64, 64, 4),
    (64, 64, 1),
    (32, 128, 4),
    (128, 32, 4),
    (128, 64, 2),
];
const WINDOW: Window =
    Window { kernel: [3, 3], stride: [1, 1], dilation: [1, 1], padding: [(1, 1), (1, 1)] };
const TAPS: usize = 9;

/// One measurement.
pub(super) struct Cell {
    pub(super) subject: &'static str,
    /// Index into [`TOKENS`] or [`PIXELS`].
    pub(super) at: usize,
    pub(super) terms: [f64; 4],
    pub(super) run: Run,
    /// Seconds of the fastest run.
    pub(super) best: f64,
}

type Run = Box<dyn Fn()>;

pub(super) fn products() -> Vec<Cell> {
    let dense = |rows, cols, at: usize| -> Run {
        let (x, weight, bias) = (tensor([TOKENS[at], cols]), tensor([cols, rows]), tensor([rows]));
        Box::new(move || {
            black_box(linear(x.clone(), weight.clone(), Some(bias.clone())));
        })
    };
    let sparse = |weight: PackedTensors, kernel, at: usize| -> Run {
        let (x, bias) = (tensor([TOKENS[at], weight.cols]), tensor([weight.rows]));
        let dispatch = Dispatch::by(OnDevice::Cpu(kernel));
        Box::new(move || {
            black_box(run(x.clone(), &weight, Some(bias.clone()), Activation::None, dispatch));
        })
    };
    cells(&WEIGHTS, &TOKENS, |_| true, dense, sparse)
}

pub(super) fn convolutions() -> Vec<Cell> {
    let pictures = |cols: usize, at: usize| {
        let [batch, height, width] = PIXELS[at];
        tensor([batch, cols / TAPS, height, width])
    };
    let dense = |rows, cols, at| -> Run {
        let (x, weight) = (pictures(cols, at), tensor([rows, cols / TAPS, 3, 3]));
        let bias = tensor([rows]);
        Box::new(move || {
            let y = dense_conv2d(&x, &weight, Some(&bias), &WINDOW);
            black_box(y.expect("pictures on the CPU"));
        })
    };
    let sparse = |weight: PackedTensors, kernel, at| -> Run {
        let (x, bias) = (pictures(weight.cols, at), tensor([weight.rows]));
        let name = KernelName::on_cpu(weight.layout.family(), kernel, Isa::detect());
        Box::new(move || {
            let (x, bias) = (x.clone(), Some(bias.clone()));
            black_box(sparse_conv2d(x, &weight, bias, Activation::None, &WINDOW, name));
        })
    };
    let weights = KERNELS.map(|(rows, channels, kept)| (rows, channels * TAPS, kept));
    cells(
        &weights,
        &PIXELS.map(|shape| shape.iter().product()),
        CpuKernel::takes_tiles,
        dense,
        sparse,
    )
}

/// Returns the cells of each weight, dense and with every kernel for each of its layouts, for every number of tokens or
/// pixels.
fn cells(
    weights: &[(usize, usize, usize)],
    tokens: &[usize],
    takes_part: impl Fn(CpuKernel) -> bool,
    dense: impl Fn(usize, usize, usize) -> Run,
    sparse: impl Fn(PackedTensors, CpuKernel, usize) -> Run,
) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &(rows, cols, kept) in weights {
        for (place, layout) in layouts(cols).into_iter().enumerate() {
            let weight = weight(layout, rows, cols, kept);
            let shape = weight.shape();
            for (at, &n) in tokens.iter().enumerate() {
                let mut add = |subject, run| {
                    let terms = terms(&shape, subject);
                    cells.push(Cell { subject, at, terms, run, best: f64::INFINITY });
                };
                if place == 0 {
                    add(DENSE, dense(rows, cols, at));
                }
                let candidates = CpuKernel::candidates(layout, n, Isa::detect());
                let timed = |&kernel: &CpuKernel| takes_part(kernel) && once(kernel, layout);
                for kernel in candidates.filter(timed) {
                    add(subject(kernel, layout), sparse(weight.clone(), kernel, at));
                }
            }
        }
    }
    cells
}

/// Returns every layout that fits this number of columns, in the order of their curves.
fn layouts(cols: usize) -> impl IntoIterator<Item = Layout> {
    let grouped = VECTORS.map(|(vector, ..)| Layout::Grouped { vector });
    // Blocks that fill a table; `weight` sets how many weights of each block are kept.
    let balanced = BLOCKS.map(|(block, _)| Layout::Balanced { block, kept: 0 });
    let whole = move |layout: &Layout| match *layout {
        Layout::Balanced { block, .. } => cols.is_multiple_of(block),
        _ => true,
    };
    grouped.into_iter().chain(balanced).chain([Layout::Rows]).filter(whole)
}

/// Returns `true` if a kernel is timed on this layout. `Rows` has a single curve for all blocks because each of
/// them fills its registers.
fn once(kernel: CpuKernel, layout: Layout) -> bool {
    match (kernel, layout) {
        (CpuKernel::Rows, Layout::Balanced { block, .. }) => block == BLOCKS[0].0,
        _ => true,
    }
}

/// Creates a packed weight that keeps `kept` of 16 columns, different ones for every group or row.
fn weight(layout: Layout, rows: usize, cols: usize, kept: usize) -> PackedTensors {
    let (mut index, mut offsets, mut order) = (Vec::new(), Vec::new(), Vec::new());
    let mut runs = |count: usize| {
        offsets.push(0);
        for run in 0..count {
            index.extend(sample_columns(cols * kept / 16, cols, run));
            offsets.push(index.len());
        }
    };
    let (layout, index_type) = match layout {
        Layout::Grouped { vector } => {
            runs(rows.div_ceil(vector));
            order.extend(0..rows);
            (layout, DType::I32)
        }
        Layout::Rows => {
            let (kept, tiles) = (cols * kept / 16, rows.div_ceil(TILE_ROWS));
            index = interleaved(tiles, |row| sample_columns(kept, cols, row));
            offsets.extend((0..=tiles).map(|tile| tile * kept));
            order.extend(0..rows);
            (layout, DType::I32)
        }
        Layout::Balanced { block, .. } => {
            let (kept, blocks) = (block * kept / 16, cols / block);
            let tiles = rows.div_ceil(TILE_ROWS) * blocks;
            index = interleaved(tiles, |row| sample_columns(kept, block, row));
            (Layout::Balanced { block, kept }, DType::U8)
        }
    };
    let stored = match layout {
        Layout::Balanced { .. } | Layout::Rows => index.len(),
        Layout::Grouped { vector } => index.len() * vector,
    };
    PackedTensors {
        rows,
        cols,
        layout,
        values: tensor(layout.values_shape(stored)),
        index: ids(&index, index_type),
        offsets: ids(&offsets, DType::I32),
        order: ids(&order, DType::I32),
        checked: Checked::default(),
        on_cpu: OnCpu::default(),
    }
}

/// Interleaves the columns of the rows of every tile, the same number in each row.
fn interleaved<I: Iterator<Item = usize>>(
    tiles: usize,
    columns: impl Fn(usize) -> I,
) -> Vec<usize> {
    let mut index = Vec::new();
    for tile in 0..tiles {
        let rows = tile * TILE_ROWS..(tile + 1) * TILE_ROWS;
        let rows: Vec<Vec<usize>> = rows.map(|row| columns(row).collect()).collect();
        index.extend((0..rows[0].len()).flat_map(|slot| rows.iter().map(move |row| row[slot])));
    }
    index
}

/// Draws `kept` of `of` columns in ascending order, irregularly spaced (Knuth's algorithm S): at regular distances they
/// would share sets of the cache, and unstructured weights would take a third longer than trained ones do.
fn sample_columns(kept: usize, of: usize, seed: usize) -> impl Iterator<Item = usize> {
    let (mut state, mut wanted) = ((seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15), kept);
    (0..of).filter(move |column| {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let taken = (mixed ^ (mixed >> 31)) % ((of - column) as u64) < wanted as u64;
        wanted -= usize::from(taken);
        taken
    })
}

fn ids(ids: &[usize], dtype: DType) -> Tensor<1, Int> {
    let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
    let shape = [ids.len()];
    Tensor::from_data(TensorData::new(ids, shape), (&Device::flex(), dtype))
}

/// Creates a tensor of nonzero numbers without the device's random stream, which belongs to the user.
pub(super) fn tensor<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    let count = shape.iter().product();
    let numbers: Vec<f32> = (0..count).map(|i: usize| 0.5 + (i % 251) as f32 / 256.0).collect();
    Tensor::from_data(TensorData::new(numbers, shape), &Device::flex())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_columns_are_sampled_as_are_kept_and_others_by_another_seed() {
        for (kept, of) in [(0, 5), (3, 3), (8, 32), (24, 96)] {
            let columns = |seed| sample_columns(kept, of, seed).collect::<Vec<_>>();
            assert_eq!(columns(1).len(), kept);
            assert_eq!(columns(1) == columns(2), kept == 0 || kept == of);
        }
    }
}
