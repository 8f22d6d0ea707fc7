use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use burn::tensor::module::linear;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use super::fit::{Sample, fit};
use super::{BLOCKS, CACHED, Costs, DENSE, Matrix, VECTORS, subject};
use crate::flex::{Isa, Kernel};
use crate::functions::{Way, run};
use crate::kernel_name::OnDevice;
use crate::layout::TILE_ROWS;
use crate::{Activation, Checked, Layout, PackedTensors};

const TOKENS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Rows, columns, and how many of 16 weights are kept: large and small, dense and thin, wide and tall.
const WEIGHTS: [(usize, usize, usize); 6] =
    [(32, 32, 8), (384, 384, 8), (384, 384, 1), (1024, 1024, 4), (32, 1536, 4), (1536, 32, 4)];

/// Rows and columns of a weight that no cache keeps: 64 MB.
const LARGE: (usize, usize) = (4096, 4096);

/// Rounds over the whole table, of which the fastest run of every cell counts: whatever else goes on on
/// the machine can only slow a run, and rarely lasts through all of them.
const ROUNDS: usize = 5;

/// Seconds and runs that a cell of the table takes in each at least; the first run finds cold caches.
const SECONDS: f64 = 150e-6;
const RUNS: usize = 3;

/// One thing to time.
struct Cell {
    subject: &'static str,
    /// Which of [`TOKENS`].
    at: usize,
    terms: [f64; 4],
    run: Box<dyn Fn()>,
    best: f64,
}

/// Times everything that can be chosen.
pub(super) fn measure() -> Costs {
    let mut cells = cells();
    for _ in 0..ROUNDS {
        for cell in &mut cells {
            cell.best = cell.best.min(fastest(&cell.run));
        }
    }
    let mut samples: BTreeMap<&str, Vec<Vec<Sample<4>>>> = BTreeMap::new();
    for cell in &cells {
        let curve = samples.entry(cell.subject).or_default();
        curve.resize(curve.len().max(cell.at + 1), Vec::new());
        curve[cell.at].push((cell.terms, cell.best));
    }
    let fitted = |samples: &Vec<_>| fit(samples).map(|seconds| seconds * 1e9);
    let nanoseconds = samples
        .into_iter()
        .map(|(subject, curve)| (subject.to_string(), curve.iter().map(fitted).collect()));
    let cached = Costs {
        machine: String::new(),
        tokens: TOKENS.to_vec(),
        nanoseconds: nanoseconds.collect(),
        memory: 0.0,
    };
    Costs { memory: memory(&cached), ..cached }
}

/// Nanoseconds that a byte from memory adds, by a dense product with one token.
fn memory(cached: &Costs) -> f64 {
    let (rows, cols) = LARGE;
    let matrix = Matrix { rows, cols, layout: Layout::Rows, kept: 0 };
    let (x, dense) = (tensor([1, cols]), tensor([cols, rows]));
    let run = move || {
        black_box(linear(x.clone(), dense.clone(), None));
    };
    let best = (0..ROUNDS).map(|_| fastest(&run)).fold(f64::INFINITY, f64::min);
    let extra = best - cached.predict(DENSE, &matrix, 1);
    (1e9 * extra / (matrix.bytes(DENSE) - CACHED) as f64).max(0.0)
}

fn cells() -> Vec<Cell> {
    let mut layouts: Vec<Layout> = VECTORS.map(|(vector, _)| Layout::Grouped { vector }).to_vec();
    // Blocks that fill a table; what is kept of them varies.
    layouts.extend(BLOCKS.map(|(block, _)| Layout::Balanced { block, kept: 0 }));
    layouts.push(Layout::Rows);
    let mut cells = Vec::new();
    for (rows, cols, kept) in WEIGHTS {
        let bias = tensor([rows]);
        let whole = |layout: &Layout| match *layout {
            Layout::Balanced { block, .. } => cols.is_multiple_of(block),
            _ => true,
        };
        for (place, &layout) in layouts.iter().filter(|layout| whole(layout)).enumerate() {
            let weight = weight(layout, rows, cols, kept);
            let matrix = weight.matrix();
            for (at, n) in TOKENS.into_iter().enumerate() {
                let x = tensor([n, cols]);
                let mut add = |subject, run| {
                    let terms = matrix.terms(subject);
                    cells.push(Cell { subject, at, terms, run, best: f64::INFINITY });
                };
                if place == 0 {
                    let (x, bias, dense) = (x.clone(), bias.clone(), tensor([cols, rows]));
                    let run = move || {
                        black_box(linear(x.clone(), dense.clone(), Some(bias.clone())));
                    };
                    add(DENSE, Box::new(run) as Box<dyn Fn()>);
                }
                for kernel in Kernel::candidates(layout, n, Isa::detect()) {
                    // One curve for all vectors or blocks that these kernels take: they fill their registers
                    // with each.
                    let once = match (kernel, layout) {
                        (Kernel::Decode, Layout::Grouped { vector }) => vector == 32,
                        (Kernel::Rows, Layout::Balanced { block, .. }) => block == BLOCKS[0].0,
                        _ => true,
                    };
                    if !once {
                        continue;
                    }
                    let (x, bias, weight) = (x.clone(), bias.clone(), weight.clone());
                    let way = Way::by(OnDevice::Flex(kernel));
                    let run = move || {
                        let (x, bias) = (x.clone(), Some(bias.clone()));
                        // A layer puts its weight together for every call, as this does.
                        let weight = weight.clone();
                        black_box(run(x, &weight, bias, Activation::None, way));
                    };
                    add(subject(kernel, layout), Box::new(run));
                }
            }
        }
    }
    cells
}

/// Seconds of the fastest of some runs.
fn fastest(run: &dyn Fn()) -> f64 {
    let started = Instant::now();
    let (mut best, mut runs) = (f64::INFINITY, 0);
    while runs < RUNS || started.elapsed().as_secs_f64() < SECONDS {
        runs += 1;
        let run_started = Instant::now();
        run();
        best = best.min(run_started.elapsed().as_secs_f64());
    }
    best
}

/// A packed weight with `kept` of every 16 columns, other ones for every group or row.
fn weight(layout: Layout, rows: usize, cols: usize, kept: usize) -> PackedTensors {
    let (mut index, mut offsets, mut order) = (Vec::new(), Vec::new(), Vec::new());
    let mut runs = |count: usize| {
        offsets.push(0);
        for run in 0..count {
            index.extend((0..cols).filter(|col| (col * 7 + run * 5 + col / 16) % 16 < kept));
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
            let (kept, step) = (block * kept / 16, 16 / kept);
            for tile in 0..rows.div_ceil(TILE_ROWS) {
                for slot in 0..cols / block * kept {
                    let in_block = |row| slot % kept * step + (row + tile) % step;
                    index.extend((0..TILE_ROWS).map(in_block));
                }
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

fn ids(ids: &[usize], dtype: DType) -> Tensor<1, Int> {
    let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
    let shape = [ids.len()];
    Tensor::from_data(TensorData::new(ids, shape), (&Device::flex(), dtype))
}

/// Numbers that are not zero; without the device's random stream, which belongs to the user.
fn tensor<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    let count = shape.iter().product();
    let numbers: Vec<f32> = (0..count).map(|i: usize| 0.5 + (i % 251) as f32 / 256.0).collect();
    Tensor::from_data(TensorData::new(numbers, shape), &Device::flex())
}
