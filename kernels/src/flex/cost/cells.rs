//! What is timed.

use std::hint::black_box;

use burn::tensor::module::linear;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use super::curves::{BLOCKS, DENSE, VECTORS, subject};
use crate::flex::{Isa, Kernel};
use crate::functions::{Way, run};
use crate::kernel_name::{KernelName, OnDevice};
use crate::layout::TILE_ROWS;
use crate::{Activation, Checked, Layout, PackedTensors, Window, dense_conv2d, sparse_conv2d};

pub(super) const TOKENS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Rows, columns, and how many of 16 weights are kept: large and small, dense and thin, wide and tall.
const WEIGHTS: [(usize, usize, usize); 6] =
    [(32, 32, 8), (384, 384, 8), (384, 384, 1), (1024, 1024, 4), (32, 1536, 4), (1536, 32, 4)];

/// Pictures, their height and their width.
pub(super) const PIXELS: [[usize; 3]; 6] =
    [[1, 1, 1], [1, 4, 4], [1, 8, 8], [1, 16, 16], [1, 32, 32], [8, 32, 32]];

/// Outputs, inputs, and how many of 16 weights are kept, of convolutions with kernels of 3 by 3. Blocks of 32 divide all.
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

/// One thing to time.
pub(super) struct Cell {
    pub(super) subject: &'static str,
    /// Which of [`TOKENS`] or [`PIXELS`].
    pub(super) at: usize,
    pub(super) terms: [f64; 4],
    pub(super) run: Run,
    /// Seconds.
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
        let way = Way::by(OnDevice::Flex(kernel));
        Box::new(move || {
            let (x, bias) = (x.clone(), Some(bias.clone()));
            // A layer puts its weight together for every call, as this does.
            let weight = weight.clone();
            black_box(run(x, &weight, bias, Activation::None, way));
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
        let name = KernelName::on_cpu("", kernel, Isa::detect());
        Box::new(move || {
            let (x, bias, weight) = (x.clone(), Some(bias.clone()), weight.clone());
            black_box(sparse_conv2d(x, &weight, bias, Activation::None, &WINDOW, name));
        })
    };
    let weights = KERNELS.map(|(rows, channels, kept)| (rows, channels * TAPS, kept));
    cells(&weights, &PIXELS.map(|shape| shape.iter().product()), Kernel::takes_tiles, dense, sparse)
}

/// Each of the weights, dense and with every kernel for every layout of it, on so many tokens or pixels.
fn cells(
    weights: &[(usize, usize, usize)],
    tokens: &[usize],
    takes_part: impl Fn(Kernel) -> bool,
    dense: impl Fn(usize, usize, usize) -> Run,
    sparse: impl Fn(PackedTensors, Kernel, usize) -> Run,
) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &(rows, cols, kept) in weights {
        for (place, layout) in layouts(cols).into_iter().enumerate() {
            let weight = weight(layout, rows, cols, kept);
            let matrix = weight.matrix();
            for (at, &n) in tokens.iter().enumerate() {
                let mut add = |subject, run| {
                    let terms = matrix.terms(subject);
                    cells.push(Cell { subject, at, terms, run, best: f64::INFINITY });
                };
                if place == 0 {
                    add(DENSE, dense(rows, cols, at));
                }
                let candidates = Kernel::candidates(layout, n, Isa::detect());
                let timed = |&kernel: &Kernel| takes_part(kernel) && once(kernel, layout);
                for kernel in candidates.filter(timed) {
                    add(subject(kernel, layout), sparse(weight.clone(), kernel, at));
                }
            }
        }
    }
    cells
}

/// Every layout that fits so many columns, in the order of their curves.
fn layouts(cols: usize) -> impl IntoIterator<Item = Layout> {
    let grouped = VECTORS.map(|(vector, _)| Layout::Grouped { vector });
    // Blocks that fill a table; what is kept of them varies.
    let balanced = BLOCKS.map(|(block, _)| Layout::Balanced { block, kept: 0 });
    let whole = move |layout: &Layout| match *layout {
        Layout::Balanced { block, .. } => cols.is_multiple_of(block),
        _ => true,
    };
    grouped.into_iter().chain(balanced).chain([Layout::Rows]).filter(whole)
}

/// Whether a kernel is to be timed on this layout. Some have one curve for all vectors or blocks: they fill their registers
/// with each.
fn once(kernel: Kernel, layout: Layout) -> bool {
    match (kernel, layout) {
        (Kernel::Decode, Layout::Grouped { vector }) => vector == 32,
        (Kernel::Rows, Layout::Balanced { block, .. }) => block == BLOCKS[0].0,
        _ => true,
    }
}

/// A packed weight with `kept` of 16 columns, other ones for every group or row.
fn weight(layout: Layout, rows: usize, cols: usize, kept: usize) -> PackedTensors {
    let (mut index, mut offsets, mut order) = (Vec::new(), Vec::new(), Vec::new());
    let mut runs = |count: usize| {
        offsets.push(0);
        for run in 0..count {
            index.extend(drawn(cols * kept / 16, cols, run));
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
            runs(rows);
            (layout, DType::I32)
        }
        Layout::Balanced { block, .. } => {
            let (kept, blocks) = (block * kept / 16, cols / block);
            for tile in 0..rows.div_ceil(TILE_ROWS) * blocks {
                let row = |row| drawn(kept, block, tile * TILE_ROWS + row).collect();
                let rows: Vec<Vec<usize>> = (0..TILE_ROWS).map(row).collect();
                index.extend((0..kept).flat_map(|slot| rows.iter().map(move |row| row[slot])));
            }
            (Layout::Balanced { block, kept }, DType::U8)
        }
    };
    PackedTensors {
        rows,
        cols,
        layout,
        values: tensor(layout.values_shape(index.len())),
        index: ids(&index, index_type),
        offsets: ids(&offsets, DType::I32),
        order: ids(&order, DType::I32),
        checked: Checked::default(),
    }
}

/// So many columns of some, rising, without order (Knuth's algorithm S): at regular distances they would share sets of
/// the cache, and single weights take a third longer than trained ones do.
fn drawn(kept: usize, of: usize, seed: usize) -> impl Iterator<Item = usize> {
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

/// Numbers that are not zero; without the device's random stream, which belongs to the user.
pub(super) fn tensor<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    let count = shape.iter().product();
    let numbers: Vec<f32> = (0..count).map(|i: usize| 0.5 + (i % 251) as f32 / 256.0).collect();
    Tensor::from_data(TensorData::new(numbers, shape), &Device::flex())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_columns_are_drawn_as_are_kept_and_others_by_another_seed() {
        for (kept, of) in [(0, 5), (3, 3), (8, 32), (24, 96)] {
            let columns = |seed| drawn(kept, of, seed).collect::<Vec<_>>();
            assert_eq!(columns(1).len(), kept);
            assert_eq!(columns(1) == columns(2), kept == 0 || kept == of);
        }
    }
}
