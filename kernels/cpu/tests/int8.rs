//! Kernels of weights in 8 or 4 bits and inputs in 8 bits have exact sums, on every instruction set of this CPU.

mod support;

use burn_sparse_cpu::int8::{ByteIsa, ByteWeight, run};
use burn_sparse_cpu::{Activation, Store};
use burn_sparse_pattern::format::{DenseScales, Integers, LEVELS, Scales};
use burn_sparse_pattern::{Mask, Packed, Pattern, Scores, Search};

use support::noise;

/// Number of inputs of a token that share a scale.
const STRETCH: usize = 256;

/// Returns the scales that make the largest value of every row 127.
fn scales(values: &[f32], cols: usize) -> Scales {
    let largest = |row: &[f32]| row.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    Scales::of_rows(values.chunks(cols).map(|row| largest(row) / 127.0).collect())
}

/// Returns the largest magnitude of the stretch of every input.
fn largest(x: &[f32]) -> Vec<f32> {
    let stretch = |x: &[f32]| {
        let largest = x.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        vec![largest; x.len()]
    };
    x.chunks(STRETCH).flat_map(stretch).collect()
}

/// The kernel in float64: the same rounding, and exact sums.
fn exact(weight: &ByteWeight, x: &[f32], bias: &[f32]) -> Vec<f64> {
    let (rows, cols, dense) = (weight.rows(), weight.cols(), weight.unpack());
    let mut y = Vec::with_capacity(x.len() / cols * rows);
    for x in x.chunks(cols) {
        let rounded = |(x, largest): (&f32, f32)| {
            let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
            f64::from((x * inverse).round_ties_even()) * f64::from(largest) / 127.0
        };
        let inputs: Vec<f64> = x.iter().zip(largest(x)).map(rounded).collect();
        for row in 0..rows {
            let weights = &dense[row * cols..(row + 1) * cols];
            let sum: f64 = weights.iter().zip(&inputs).map(|(w, x)| f64::from(*w) * x).sum();
            y.push(sum + f64::from(bias[row]));
        }
    }
    y
}

/// Asserts that a weight agrees with exact sums on every instruction set, and with the unrounded product within the bound of
/// rounding: half a step of each factor times the sum of the other's magnitudes. A step of a level is the distance to the next.
fn assert_agrees(name: &str, weight: &ByteWeight, values: &[f32], scales: &Scales) {
    let (rows, cols) = (weight.rows(), weight.cols());
    let (bias, stored) = (noise(rows, 9), weight.unpack());
    for n in [1, 2, 3, 5, 8, 9, 16, 33] {
        let x = noise(n * cols, 5);
        let exact = exact(weight, &x, &bias);
        for isa in ByteIsa::available() {
            let store = Store { bias: Some(&bias), activation: Activation::None };
            let y = run(isa, weight, &x, store);
            assert_eq!(y.len(), exact.len());
            let relu = run(isa, weight, &x, Store { activation: Activation::Relu, ..store });
            for (i, (y, exact)) in y.iter().zip(&exact).enumerate() {
                let at = format!("{name} {} n={n} [{i}]", isa.name());
                assert!(
                    (f64::from(*y) - exact).abs() < 1e-5 * (1.0 + exact.abs()),
                    "{at}: {y} {exact}"
                );
                assert_eq!(relu[i], y.max(0.0), "{at}");
                let (token, row) = (i / rows, i % rows);
                let inputs = &x[token * cols..(token + 1) * cols];
                let weights = &values[row * cols..(row + 1) * cols];
                let (mut product, mut bound) = (f64::from(bias[row]), 1e-4);
                let kept = inputs.iter().zip(largest(inputs)).zip(weights).enumerate();
                for (col, ((&x, largest), &w)) in kept.filter(|(_, (_, w))| **w != 0.0) {
                    let step = f64::from(largest) / 127.0;
                    product += f64::from(x) * f64::from(w);
                    let off = match scales.integers() {
                        Integers::Int8 => 0.5 * f64::from(scales.at(row, col)),
                        Integers::Int4 => {
                            off_level(w, stored[row * cols + col], scales.at(row, col))
                        }
                    };
                    bound +=
                        0.5 * step * f64::from(w.abs()) + off * (f64::from(x.abs()) + 0.5 * step);
                }
                assert!((f64::from(*y) - product).abs() <= bound, "{at}: {y} {product} ± {bound}");
            }
        }
    }
}

/// Returns the distance of a value from its level, after asserting that no level is nearer.
fn off_level(value: f32, stored: f32, scale: f32) -> f64 {
    let distance = |stored: f32| f64::from((value - stored).abs());
    let nearest = LEVELS.map(|level| distance(f32::from(level) * scale));
    let nearest = nearest.into_iter().fold(f64::INFINITY, f64::min);
    assert!(
        distance(stored) <= nearest * (1.0 + 1e-6),
        "{value} is stored as {stored}, scale {scale}"
    );
    nearest
}

fn pruned(pattern: &Pattern, rows: usize, cols: usize, sparsity: f64) -> (Packed, Vec<f32>) {
    let mut values = noise(rows * cols, 3);
    let scores: Vec<f32> = values.iter().map(|value| value.abs()).collect();
    let scores = Scores::new(rows, cols, &scores).unwrap();
    let found = pattern.project(&scores, sparsity, &Search::default()).unwrap();
    let (mask, order) = (&found.mask, found.row_order.as_ref());
    for row in 0..rows {
        for col in 0..cols {
            if !mask.get(row, col) {
                values[row * cols + col] = 0.0;
            }
        }
    }
    (Packed::pack(pattern, &values, mask, order).unwrap(), values)
}

#[test]
fn kernels_of_every_pattern_agree_with_exact_sums_on_every_instruction_set() {
    for pattern in [
        "unstructured",
        "balanced(block=32)",
        "balanced(block=7)",
        "n-of-m(keep=2,of=4)",
        "shfl-bw(vector=32)",
        "shfl-bw(vector=16)",
        "shfl-bw(vector=8)",
        "shfl-bw(vector=4)",
        "shfl-bw(vector=5)",
        "shfl-bw(vector=48)",
        "shfl-bw(vector=8,equal_groups=false)",
        "vector-wise(vector=32)",
        "block-wise(block=4)",
        "shfl-bw(vector=2)",
    ] {
        let parsed: Pattern = pattern.parse().unwrap();
        for (rows, cols) in [(64, 96), (37, 61), (33, 31), (100, 200), (16, 600)] {
            let (packed, values) = pruned(&parsed, rows, cols, 0.5);
            // In 4 bits two of the shapes: what differs are blocks, which have a test of their own.
            let in_4_bits = [(37, 61), (16, 600)].contains(&(rows, cols));
            let in_4_bits = in_4_bits.then(|| packed.scales(Integers::Int4));
            for scales in [Some(scales(&values, cols)), in_4_bits].into_iter().flatten() {
                let weight = ByteWeight::packed(&packed, &scales);
                let name = format!("{pattern} {rows}x{cols} {:?}", scales.integers());
                assert_agrees(&name, &weight, &values, &scales);
            }
        }
    }
}

#[test]
fn weights_of_which_only_the_kept_are_stored_agree_with_exact_sums_on_every_instruction_set() {
    for pattern in ["balanced(block=32)", "unstructured", "shfl-bw(vector=8)"] {
        for (rows, cols) in [(1, 64), (16, 40), (31, 33), (64, 700), (97, 77), (40, 256)] {
            for sparsity in [0.5, 0.75] {
                let pattern: Pattern = pattern.parse().unwrap();
                let (packed, values) = pruned(&pattern, rows, cols, sparsity);
                for scales in [scales(&values, cols), packed.scales(Integers::Int4)] {
                    let weight = ByteWeight::expanded(&packed, &scales);
                    assert_eq!(weight.family(), "expanded");
                    assert_eq!(weight.unpack(), ByteWeight::packed(&packed, &scales).unpack());
                    let name =
                        format!("{pattern} {rows}x{cols} {sparsity} {:?}", scales.integers());
                    assert_agrees(&name, &weight, &values, &scales);
                }
            }
        }
    }
}

#[test]
fn half_of_the_weights_take_a_bit_for_each_and_the_kept_ones() {
    let (rows, cols) = (64, 1024);
    let (packed, values) = pruned(&Pattern::balanced(32), rows, cols, 0.5);
    let weight = ByteWeight::expanded(&packed, &scales(&values, cols));
    let least = rows * cols / 8 + packed.kept();
    assert!((least..least + least / 10).contains(&weight.bytes()), "{} {least}", weight.bytes());
}

#[test]
fn dense_weights_agree_with_exact_sums_on_every_instruction_set() {
    for (rows, cols) in [(1, 1), (16, 4), (31, 33), (64, 700), (97, 7)] {
        let values = noise(rows * cols, 3);
        let chosen = DenseScales::choose(Integers::Int4, 0, &[rows, cols], &values).scales;
        for scales in [scales(&values, cols), chosen] {
            let weight = ByteWeight::dense((rows, cols), &values, &scales);
            let name = format!("dense {rows}x{cols} {:?}", scales.integers());
            assert_agrees(&name, &weight, &values, &scales);
        }
    }
}

#[test]
fn blocks_of_32_to_256_columns_have_scales_of_their_own() {
    let (rows, cols) = (32, 300);
    let (packed, kept) = pruned(&"shfl-bw(vector=16)".parse().unwrap(), rows, cols, 0.75);
    let (looked_up, rows_kept) = pruned(&Pattern::balanced(32), rows, cols, 0.75);
    let dense = noise(rows * cols, 3);
    for block in [32, 64, 128, 256] {
        let blocks = cols.div_ceil(block);
        // Scales have either sign, and blocks beside each other have different ones.
        let scale = |at: usize| {
            2.0_f32.powi(at as i32 % 3 - 8) * if at.is_multiple_of(2) { 1.0 } else { -1.0 }
        };
        let scales =
            Scales::new(Integers::Int4, cols, block, (0..rows * blocks).map(scale).collect());
        let name = |form: &str| format!("{form}, blocks of {block}");
        let weight = ByteWeight::dense((rows, cols), &dense, &scales);
        assert_agrees(&name("dense"), &weight, &dense, &scales);
        if block == 32 {
            continue;
        }
        assert_agrees(&name("groups"), &ByteWeight::packed(&packed, &scales), &kept, &scales);
        let weight = ByteWeight::packed(&looked_up, &scales);
        assert_agrees(&name("rows"), &weight, &rows_kept, &scales);
        let weight = ByteWeight::expanded(&looked_up, &scales);
        assert_agrees(&name("expanded rows"), &weight, &rows_kept, &scales);
    }
}

#[test]
fn extreme_values_do_not_saturate() {
    let (rows, cols) = (32, 4096);
    for (w, x) in [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)] {
        let (values, x) = (vec![w; rows * cols], vec![x; 9 * cols]);
        let rows_scales = Scales::of_rows(vec![1.0 / 127.0; rows]);
        let blocks = vec![-1.0 / 128.0; rows * cols / 64];
        let levels = Scales::new(Integers::Int4, cols, 64, blocks);
        let dense = ByteWeight::dense((rows, cols), &values, &rows_scales);
        let mask = Mask::from_bytes(rows, cols, &vec![1; rows * cols]).unwrap();
        let packed = Packed::pack(&Pattern::Unstructured {}, &values, &mask, None).unwrap();
        let both = [&rows_scales, &levels];
        let [looked_up, looked_up_levels] = both.map(|s| ByteWeight::packed(&packed, s));
        let [expanded, expanded_levels] = both.map(|s| ByteWeight::expanded(&packed, s));
        for isa in ByteIsa::available() {
            // A scale of -1/128 rounds 1 to the level -127, and -1 to the level 109.
            let level = if w > 0.0 { 127.0 / 128.0 } else { -109.0 / 128.0 };
            let in_8 = [&dense, &looked_up, &expanded].map(|weight| (weight, w));
            let in_4 = [&looked_up_levels, &expanded_levels].map(|weight| (weight, level));
            for (weight, w) in in_8.into_iter().chain(in_4) {
                let store = Store { bias: None, activation: Activation::None };
                let expected = w * x[0] * cols as f32;
                for y in run(isa, weight, &x, store) {
                    assert!((y - expected).abs() < 1e-2, "{}: {y} {expected}", isa.name());
                }
            }
        }
    }
}

#[test]
fn a_token_that_is_not_finite_spoils_only_its_own_outputs() {
    let values = noise(16 * 40, 3);
    let weight = ByteWeight::dense((16, 40), &values, &scales(&values, 40));
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for at in [3, 39] {
            let mut x = noise(3 * 40, 5);
            x[40 + at] = wrong;
            for isa in ByteIsa::available() {
                for activation in [Activation::None, Activation::Relu, Activation::Gelu] {
                    let y = run(isa, &weight, &x, Store { bias: None, activation });
                    let nan: Vec<bool> =
                        y.chunks(16).map(|y| y.iter().all(|y| y.is_nan())).collect();
                    assert_eq!(nan, [false, true, false], "{} {activation:?}", isa.name());
                }
            }
        }
    }
}

#[test]
fn stacked_weights_compute_the_outputs_of_their_parts() {
    for pattern in ["balanced(block=32)", "shfl-bw(vector=32)", "shfl-bw(vector=8)"] {
        let parsed: Pattern = pattern.parse().unwrap();
        let packed = [64, 40, 33].map(|rows| pruned(&parsed, rows, 96, 0.5).0);
        let [in_8, in_4] = [Integers::Int8, Integers::Int4].map(|integers| {
            packed.each_ref().map(|packed| ByteWeight::packed(packed, &packed.scales(integers)))
        });
        let expanded = [Integers::Int8, Integers::Int4].map(|integers| {
            packed.each_ref().map(|packed| ByteWeight::expanded(packed, &packed.scales(integers)))
        });
        for parts in [&in_8, &in_4, &expanded[0], &expanded[1]] {
            let stacked = ByteWeight::stack(&parts.iter().collect::<Vec<_>>()).unwrap();
            let store = Store { bias: None, activation: Activation::Gelu };
            let (x, isa) = (noise(96, 5), ByteIsa::detect());
            let apart: Vec<f32> = parts.iter().flat_map(|part| run(isa, part, &x, store)).collect();
            assert_eq!(run(isa, &stacked, &x, store), apart, "{pattern}");
        }
        assert_eq!(ByteWeight::stack(&[&in_8[0], &in_4[0]]), None);
    }
}

#[test]
fn a_row_of_a_stacked_weight_is_that_of_its_part() {
    for rows in [[16, 16], [20, 31], [33, 1]] {
        for integers in [Integers::Int8, Integers::Int4] {
            let cols = 40;
            let parts = rows.map(|rows| {
                let values = noise(rows * cols, rows as u32);
                let chosen = DenseScales::choose(integers, 0, &[rows, cols], &values);
                ByteWeight::dense((rows, cols), &values, &chosen.scales)
            });
            let stacked = ByteWeight::stack(&parts.iter().collect::<Vec<_>>()).unwrap();
            let all = stacked.unpack();
            let apart: Vec<f32> = parts.iter().flat_map(ByteWeight::unpack).collect();
            assert_eq!(all, apart, "{rows:?}");
            for (row, expected) in all.chunks(cols).enumerate() {
                let mut found = Vec::new();
                stacked.dense_row(row, &mut found);
                assert_eq!(found, expected, "row {row} of {rows:?}, {integers:?}");
            }
        }
    }
}
