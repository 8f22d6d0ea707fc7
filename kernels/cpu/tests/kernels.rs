//! Kernels of floats agree with sums in float64, on every instruction set of this CPU.

mod support;

use burn_sparse_cpu::{
    Activation, CpuKernel, Isa, Layout, PackedWeight, Parts, Store, Values, Window, gradient, run,
};
use half::{bf16, f16};

use support::noise;

/// Returns the kept columns of a group or row: every third one and every seventh one, shifted by `which`.
fn columns(cols: usize, which: usize) -> Vec<i32> {
    (0..cols)
        .filter(|c| c % 3 == which % 3 || (c + which).is_multiple_of(7))
        .map(|c| c as i32)
        .collect()
}

/// Arrays of a packed weight, with values in f32.
#[derive(Default)]
struct Arrays<'a> {
    rows: usize,
    cols: usize,
    values: &'a [f32],
    columns: &'a [i32],
    in_block: &'a [u8],
    offsets: &'a [i32],
    order: &'a [i32],
}

impl<'a> Arrays<'a> {
    fn checked(&self, layout: Layout, values: Values<'a>) -> PackedWeight<'a> {
        let Self { rows, cols, columns, in_block, offsets, order, .. } = *self;
        let parts = Parts { rows, cols, layout, values, columns, in_block, offsets, order };
        parts.check().unwrap()
    }
}

/// Asserts that every kernel agrees with a plain float64 sum on every instruction set of this CPU, for every type in
/// which its values can be stored.
fn assert_every_isa_agrees(layout: Layout, arrays: &Arrays<'_>) {
    let values = arrays.values;
    let exact: Vec<f64> = values.iter().map(|&value| value.into()).collect();
    assert_agrees(&arrays.checked(layout, Values::F32(values)), &exact);
    let halves: Vec<bf16> = values.iter().copied().map(bf16::from_f32).collect();
    let exact: Vec<f64> = halves.iter().map(|value| value.to_f64()).collect();
    assert_agrees(&arrays.checked(layout, Values::Bf16(&halves)), &exact);
    let halves: Vec<f16> = values.iter().copied().map(f16::from_f32).collect();
    let exact: Vec<f64> = halves.iter().map(|value| value.to_f64()).collect();
    assert_agrees(&arrays.checked(layout, Values::F16(&halves)), &exact);
}

fn assert_agrees(weight: &PackedWeight<'_>, values: &[f64]) {
    assert_gradients_of_convolutions_agree(weight, values);
    let shape = weight.shape();
    let (rows, cols) = (shape.rows, shape.cols);
    let bias = noise(rows, 9);
    for n in [1, 2, 3, 5, 8, 9, 16, 33, 70] {
        let x = noise(n * cols, 5);
        let mut expected: Vec<f64> = (0..n * rows).map(|i| f64::from(bias[i % rows])).collect();
        weight.entries(|row, col, at| {
            for token in 0..n {
                expected[token * rows + row] += values[at] * f64::from(x[token * cols + col]);
            }
        });
        let store = Store { bias: Some(&bias), activation: Activation::Relu };
        for isa in Isa::available() {
            assert_gradients_agree(isa, weight, values, &x);
            for kernel in CpuKernel::candidates(shape.layout, n, isa) {
                let y = run(isa, kernel, weight, &x, store);
                for (i, (y, expected)) in y.iter().zip(&expected).enumerate() {
                    let difference = (f64::from(*y) - expected.max(0.0)).abs();
                    let name = (isa.name(), kernel.name());
                    assert!(difference < 1e-4, "{name:?} n={n} [{i}]: {y} {expected}");
                }
            }
        }
    }
}

/// Asserts that both gradients agree with float64 sums.
fn assert_gradients_agree(isa: Isa, weight: &PackedWeight<'_>, values: &[f64], x: &[f32]) {
    let shape = weight.shape();
    let (rows, cols) = (shape.rows, shape.cols);
    let n = x.len() / cols;
    let dy = noise(n * rows, 13);
    let (mut dx, mut dw) = (vec![0.0_f64; n * cols], vec![0.0_f64; values.len()]);
    weight.entries(|row, col, at| {
        for token in 0..n {
            let dy = f64::from(dy[token * rows + row]);
            dx[token * cols + col] += values[at] * dy;
            dw[at] += dy * f64::from(x[token * cols + col]);
        }
    });
    // Stale values must be overwritten.
    let mut found = vec![f32::NAN; n * cols];
    gradient::dx(isa, weight, &dy, &mut found);
    let found_dw = gradient::dw(isa, weight, x, &dy);
    for (what, found, expected) in [("dx", &found, &dx), ("dw", &found_dw, &dw)] {
        assert_eq!(found.len(), expected.len());
        for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
            let difference = (f64::from(*found) - expected).abs();
            let name = (what, isa.name(), shape.layout);
            assert!(difference < 1e-4, "{name:?} n={n} [{i}]: {found} {expected}");
        }
    }
}

/// Asserts that gradients of convolutions, of all kernels that fit the columns of the weight, agree with float64 sums.
fn assert_gradients_of_convolutions_agree(weight: &PackedWeight<'_>, values: &[f64]) {
    let (rows, cols) = (weight.shape().rows, weight.shape().cols);
    // Few images, some that are taken together, and one that is cut into strips.
    let images = [(3, [7, 9]), (37, [5, 4]), (1, [41, 43])];
    let windows = [
        ([3, 3], [1, 1], [1, 1], [(1, 1), (1, 1)]),
        ([3, 3], [2, 2], [1, 1], [(1, 1), (1, 1)]),
        ([3, 3], [2, 4], [2, 1], [(2, 3), (1, 0)]),
        ([2, 5], [1, 1], [1, 2], [(0, 1), (4, 4)]),
        ([2, 2], [3, 1], [1, 3], [(3, 0), (3, 2)]),
        ([1, 1], [2, 3], [1, 1], [(0, 0), (0, 0)]),
    ];
    for (kernel, stride, dilation, padding) in windows {
        let window = Window { kernel, stride, dilation, padding };
        let taps = kernel[0] * kernel[1];
        let channels = cols / taps;
        for (batch, [height, width]) in images {
            let [lines, places] = window.output([height, width]);
            if channels * taps != cols || lines * places == 0 {
                continue;
            }
            let shape = [batch, channels, height, width];
            let x = noise(shape.iter().product(), 5);
            let dy = noise(batch * rows * lines * places, 13);
            let mut dx = vec![0.0; x.len()];
            let mut dw = vec![0.0; values.len()];
            let mut db = vec![0.0; rows];
            for (at, dy) in dy.iter().enumerate() {
                db[at / (lines * places) % rows] += f64::from(*dy);
            }
            weight.entries(|row, col, at| {
                let (tap, channel) = (col / channels, col % channels);
                for output in 0..batch * lines * places {
                    let (image, output) = (output / (lines * places), output % (lines * places));
                    let y = f64::from(dy[(image * rows + row) * lines * places + output]);
                    let output = [output / places, output % places];
                    let taps = [tap / kernel[1], tap % kernel[1]];
                    let [line, place] = [0, 1].map(|axis| {
                        let from = output[axis] * stride[axis] + taps[axis] * dilation[axis];
                        from.wrapping_sub(padding[axis].0)
                    });
                    if line < height && place < width {
                        let pixel = ((image * channels + channel) * height + line) * width + place;
                        dx[pixel] += values[at] * y;
                        dw[at] += y * f64::from(x[pixel]);
                    }
                }
            });
            for isa in Isa::available() {
                let found = gradient::conv2d(isa, weight, (&x, &dy), shape, &window, true);
                for (what, found, expected) in [
                    ("dx", &found.x.unwrap(), &dx),
                    ("dw", &found.values, &dw),
                    ("db", &found.bias, &db),
                ] {
                    assert_eq!(found.len(), expected.len());
                    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
                        let difference = (f64::from(*found) - expected).abs();
                        let name = (what, isa.name(), weight.shape().layout, shape, window);
                        assert!(difference < 2e-4, "{name:?} [{i}]: {found} {expected}");
                    }
                }
                let alone = gradient::conv2d(isa, weight, (&x, &dy), shape, &window, false);
                assert!(alone.x.is_none() && alone.values == found.values);
            }
        }
    }
}

#[test]
fn grouped_kernels_agree_on_every_instruction_set() {
    for (rows, cols, vector) in
        [(64, 50, 32), (37, 61, 16), (37, 63, 16), (40, 31, 8), (9, 300, 4), (7, 5, 3)]
    {
        let groups = rows_in(rows, vector);
        let mut ids = Vec::new();
        let mut offsets = vec![0];
        for group in 0..groups {
            // One group has no kept columns.
            ids.extend(if group == 1 { Vec::new() } else { columns(cols, group) });
            offsets.push(ids.len() as i32);
        }
        let mut values = noise(ids.len() * vector, 3);
        let short = groups * vector - rows;
        for at in offsets[groups - 1] as usize..ids.len() {
            values[(at + 1) * vector - short..(at + 1) * vector].fill(0.0);
        }
        let order: Vec<i32> = (0..rows as i32).rev().collect();
        let (values, columns, offsets, order) = (&values, &ids, &offsets, &order);
        let arrays = Arrays { rows, cols, values, columns, offsets, order, ..Arrays::default() };
        assert_every_isa_agrees(Layout::Grouped { vector }, &arrays);
    }
}

/// Returns the in-block columns and values of a balanced weight that keeps `kept` weights of each full block and `last`
/// weights of the shorter last block.
fn balanced(
    rows: usize,
    cols: usize,
    block: usize,
    [kept, last]: [usize; 2],
) -> (Vec<u8>, Vec<f32>) {
    let tiles = rows_in(rows, 16);
    let per_row = cols / block * kept + last;
    let mut in_block = Vec::new();
    for tile in 0..tiles {
        for slot in 0..per_row {
            let full = slot < cols / block * kept;
            let (width, slot) = if full {
                (block, slot % kept)
            } else {
                (cols % block, slot - cols / block * kept)
            };
            let count = if full { kept } else { last };
            // Ascending within the block, with a different shift for each row.
            in_block.extend((0..16).map(|row| {
                let shift = (row + tile) % (width / count);
                (slot * (width / count) + shift) as u8
            }));
        }
    }
    let mut values = noise(in_block.len(), 3);
    for (i, value) in values.iter_mut().enumerate() {
        let (tile, lane) = (i / 16 / per_row, i % 16);
        if tile * 16 + lane >= rows {
            *value = 0.0;
        }
    }
    (in_block, values)
}

/// A table that is longer than its block also reads floats next to a token's input, but must never select them.
#[test]
fn no_token_sees_the_input_of_another() {
    for (rows, cols, block, keeps) in
        [(33, 40, 32, [8, 3]), (20, 45, 25, [6, 5]), (9, 229, 100, [20, 29]), (3, 7, 4, [1, 3])]
    {
        let (in_block, values) = balanced(rows, cols, block, keeps);
        let (layout, values) = (Layout::Balanced { block, kept: keeps[0] }, values.as_slice());
        let arrays = Arrays { rows, cols, values, in_block: &in_block, ..Arrays::default() };
        let weight = arrays.checked(layout, Values::F32(values));
        let store = Store { bias: None, activation: Activation::None };
        for n in [2, 9, 16, 33] {
            let mut x = noise(n * cols, 5);
            x[cols..2 * cols].fill(f32::NAN);
            for isa in Isa::available() {
                for kernel in CpuKernel::candidates(layout, n, isa) {
                    let y = run(isa, kernel, &weight, &x, store);
                    for (token, y) in y.chunks(rows).enumerate() {
                        assert!(
                            y.iter().all(|y| y.is_nan() == (token == 1)),
                            "token {token} of {n}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn balanced_kernels_agree_on_every_instruction_set() {
    for (rows, cols, block, kept, last) in [
        (48, 96, 32, 8, 0),
        (33, 70, 32, 3, 2),
        (5, 40, 16, 4, 2),
        (20, 45, 25, 6, 5),
        (31, 130, 33, 5, 7),
        (18, 256, 64, 16, 0),
        (17, 211, 50, 13, 3),
        (16, 70, 65, 9, 5),
        (9, 229, 100, 20, 29),
        (16, 128, 128, 31, 0),
        (7, 150, 129, 30, 7),
        (3, 7, 4, 1, 3),
    ] {
        let (in_block, values) = balanced(rows, cols, block, [kept, last]);
        let (values, in_block) = (&values, &in_block);
        let arrays = Arrays { rows, cols, values, in_block, ..Arrays::default() };
        assert_every_isa_agrees(Layout::Balanced { block, kept }, &arrays);
    }
}

#[test]
fn padding_of_rows_reads_no_input() {
    // The second row keeps one weight of the two of the first, and its padding reads neither an infinite input nor the next
    // token.
    let (rows, cols) = (2, 3);
    let mut columns = vec![3; 32];
    (columns[0], columns[16], columns[1]) = (0, 2, 1);
    let mut values = vec![0.0; 32];
    (values[0], values[16], values[1]) = (1.0, 2.0, 3.0);
    let (columns, offsets, order) = (&columns, &[0, 2], &[0, 1]);
    let arrays =
        Arrays { rows, cols, values: &values, columns, offsets, order, ..Arrays::default() };
    let weight = arrays.checked(Layout::Rows, Values::F32(&values));
    let x = [1.0, 2.0, f32::INFINITY].repeat(5);
    for isa in Isa::available() {
        for kernel in CpuKernel::candidates(Layout::Rows, 5, isa) {
            let y =
                run(isa, kernel, &weight, &x, Store { bias: None, activation: Activation::None });
            assert_eq!(y, [f32::INFINITY, 6.0].repeat(5), "{kernel:?} {isa:?}");
        }
    }
}

#[test]
fn malformed_tiles_of_rows_are_refused() {
    let order = [0, 1];
    let refused = |columns: &[i32], offsets: &[i32], order: &[i32]| {
        let values = vec![0.0; columns.len()];
        let values = Values::F32(&values);
        let (in_block, layout) = (&[], Layout::Rows);
        let parts = Parts { rows: 2, cols: 3, layout, values, columns, in_block, offsets, order };
        parts.check().unwrap_err()
    };
    assert!(refused(&[4; 16], &[0, 1], &order).contains("column 4"));
    assert!(refused(&[-1; 16], &[0, 1], &order).contains("column"));
    assert!(refused(&[3; 16], &[0, 2], &order).contains("offsets"));
    assert!(refused(&[3; 16], &[0, 1, 1], &order).contains("tile offsets"));
    assert!(refused(&[3; 16], &[0, 1], &[0, 0]).contains("row order"));
    assert!(refused(&[3; 15], &[0, 1], &order).contains("whole tiles"));
}

/// Returns the columns of rows in tiles of 16, the first slot of each tile, and the order of rows: the last row first.
/// One row is empty.
fn tiles_of_rows(rows: usize, cols: usize) -> (Vec<i32>, Vec<i32>, Vec<i32>) {
    let order: Vec<i32> = (0..rows as i32).rev().collect();
    let kept = |row: i32| if row == 2 { Vec::new() } else { columns(cols, row as usize) };
    let (mut ids, mut offsets) = (Vec::new(), vec![0]);
    for tile in order.chunks(16) {
        let tile: Vec<Vec<i32>> = tile.iter().map(|&row| kept(row)).collect();
        let slots = tile.iter().map(Vec::len).max().unwrap();
        let padded = |slot: usize, lane: usize| {
            tile.get(lane).and_then(|row| row.get(slot)).copied().unwrap_or(cols as i32)
        };
        ids.extend((0..16 * slots).map(|at| padded(at / 16, at % 16)));
        offsets.push(offsets[offsets.len() - 1] + slots as i32);
    }
    (ids, offsets, order)
}

#[test]
fn row_kernels_agree_on_every_instruction_set() {
    // Rows of the last shape take several passes, and are widened in parts.
    for (rows, cols) in [(40, 64), (17, 33), (1, 1), (31, 100), (33, 99), (33, 1031)] {
        let (ids, offsets, order) = tiles_of_rows(rows, cols);
        let mut values = noise(ids.len(), 3);
        values.iter_mut().zip(&ids).for_each(|(value, &id)| {
            if id as usize == cols {
                *value = 0.0;
            }
        });
        let (values, columns, offsets, order) = (&values, &ids, &offsets, &order);
        let arrays = Arrays { rows, cols, values, columns, offsets, order, ..Arrays::default() };
        assert_every_isa_agrees(Layout::Rows, &arrays);
    }
}

fn rows_in(rows: usize, group: usize) -> usize {
    rows.div_ceil(group)
}
