//! Files restore their contents bitwise identically, and parameters that violate their pattern are not
//! written.

use burn_sparse_pattern::format::{
    DenseScales, Entry, FloatType, FormatError, Integers, LEVELS, PackedEntry, PackedFile, Scales,
    View, scale,
};
use burn_sparse_pattern::{Mask, Packed, Pattern, RowOrder, Scores, Search};
use proptest::prelude::*;

mod strategies;
use strategies::patterns;

const FLOATS: [FloatType; 3] = [FloatType::F32, FloatType::F16, FloatType::BF16];

/// Returns weights of an awkward shape, and a mask of the pattern with its row order.
fn pruned(
    pattern: &Pattern,
    rows: usize,
    cols: usize,
    sparsity: f64,
    float: FloatType,
) -> Option<(Vec<f32>, Mask, Option<RowOrder>)> {
    let noise = |i: usize| ((i * 2_654_435_761) % 1_000_003) as f32 / 500_001.5 - 1.0;
    let weights: Vec<f32> = (0..rows * cols).map(noise).collect();
    // Rounds the weights to the values that a model of this type holds.
    let mut rounded = vec![0.0; weights.len()];
    float.decode(&float.encode(&weights), &mut rounded);
    let scores: Vec<f32> = rounded.iter().map(|w| w.abs()).collect();
    let sparsity = pattern.nearest_sparsity(rows, cols, sparsity).ok()?;
    let scores = Scores::new(rows, cols, &scores).unwrap();
    let found = pattern.project(&scores, sparsity, &Search::default()).ok()?;
    pattern.check(&found.mask, found.row_order.as_ref()).ok()?;
    Some((rounded, found.mask, found.row_order))
}

fn entry(pattern: Pattern, view: View, packed: Packed, float: FloatType) -> Entry {
    Entry::Packed(PackedEntry {
        layer: "Linear".into(),
        view,
        pattern,
        packed,
        float,
        scales: None,
    })
}

fn file(entry: Entry) -> PackedFile {
    PackedFile { entries: [("w".to_string(), entry)].into(), metadata: Default::default() }
}

proptest! {
    #[test]
    fn masked_weights_of_every_type_come_back_from_the_bytes_to_the_bit(
        pattern in patterns(),
        rows in prop_oneof![Just(1_usize), Just(7), Just(31), Just(33), Just(64)],
        cols in prop_oneof![Just(1_usize), Just(7), Just(31), Just(33), Just(64)],
        sparsity in 0.0..0.95_f64,
        float in prop::sample::select(&FLOATS[..]),
        linear: bool,
    ) {
        let Some((weights, mask, order)) = pruned(&pattern, rows, cols, sparsity, float) else {
            return Ok(());
        };
        let view = match linear {
            true => View::Linear { rows, cols },
            false => View::Conv { rows, channels: cols, kernel: vec![1, 1] },
        };
        let packed = Packed::pack(&pattern, &weights, &mask, order.as_ref()).unwrap();
        let bytes = file(entry(pattern, view, packed, float)).to_bytes().unwrap();
        let read = PackedFile::read(bytes.as_slice()).unwrap();
        prop_assert_eq!(&read.to_bytes().unwrap(), &bytes);
        let Entry::Packed(read) = &read.entries["w"] else { panic!("not packed") };
        let masked = weights.iter().zip(mask.to_bytes()).map(|(w, keep)| w * f32::from(keep));
        let expected = float.encode(&masked.collect::<Vec<_>>());
        // A dropped -0.0 becomes 0.0, so zeros are compared by value and all others by bits.
        let found = float.encode(&read.packed.unpack());
        let zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte & 0x7f == 0);
        let width = float.width();
        for (expected, found) in expected.chunks(width).zip(found.chunks(width)) {
            prop_assert!(expected == found || (zero(expected) && zero(found)));
        }
        prop_assert_eq!(read.packed.mask(), mask);
        prop_assert_eq!(read.packed.row_order().cloned(), order);
    }

    #[test]
    fn packed_matrices_are_checked_as_their_masks_are(
        vector in 2..5_usize, rows in 1..14_usize, cols in 1..14_usize, bits: u64, keep in 1..4_usize,
    ) {
        // Keeps vectors at random, so that some masks are block-wise or have equal counts and most do
        // not.
        let chance = |group: usize, col: usize| bits.rotate_left((group * 5 + col) as u32) & 3 != 0;
        let loose = Pattern::VectorWise { vector, equal_groups: false };
        let mask = Mask::from_fn(rows, cols, |row, col| chance(row / vector, col)).unwrap();
        if mask.kept() > 0 {
            let packed = Packed::pack(&loose, &vec![1.0; rows * cols], &mask, None).unwrap();
            for pattern in [
                loose,
                Pattern::VectorWise { vector, equal_groups: true },
                Pattern::ShflBw { vector, equal_groups: false },
                Pattern::BlockWise { block: vector },
            ] {
                let (packed, mask) = (packed.check(&pattern), pattern.check(&mask, None));
                prop_assert_eq!(packed.is_ok(), mask.is_ok(), "{}: {:?} {:?}", pattern, packed, mask);
            }
            prop_assert_eq!(packed.mask_hash(), mask.hash());
            prop_assert_eq!(packed.kept(), mask.kept());
        }
        let balanced = Pattern::Balanced { block: 4 };
        if let Some((weights, mask, _)) = pruned(&balanced, rows, cols, 0.25 * keep as f64, FloatType::F32) {
            let packed = Packed::pack(&balanced, &weights, &mask, None).unwrap();
            let pattern = Pattern::NOfM { keep, of: 4 };
            prop_assert_eq!(packed.check(&pattern).is_ok(), pattern.check(&mask, None).is_ok());
        }
    }
}

/// Returns a file of one pruned weight and one dense embedding as integers.
fn as_integers(
    integers: Integers,
    pattern: Pattern,
    rows: usize,
    cols: usize,
    sparsity: f64,
) -> Option<PackedFile> {
    let (weights, mask, order) = pruned(&pattern, rows, cols, sparsity, FloatType::F32)?;
    let mut packed = Packed::pack(&pattern, &weights, &mask, order.as_ref()).unwrap();
    let scales = packed.scales(integers);
    packed.round(&scales);
    let view = View::Linear { rows, cols };
    let mut entry = entry(pattern, view, packed, FloatType::F32);
    if let Entry::Packed(entry) = &mut entry {
        entry.scales = Some(scales);
    }
    let mut file = file(entry);
    let (layer, shape, mut values) = ("Embedding".into(), vec![rows, cols], weights);
    let scales = DenseScales::choose(integers, 0, &shape, &values);
    scales.round(&shape, &mut values);
    let (float, scales) = (FloatType::F32, Some(scales));
    let embedding = Entry::Dense { layer, shape, values, float, scales };
    file.entries.insert("embedding".into(), embedding);
    Some(file)
}

proptest! {
    #[test]
    fn integers_come_back_to_the_bit_and_round_again_to_themselves(
        integers in prop_oneof![Just(Integers::Int8), Just(Integers::Int4)],
        pattern in patterns(),
        rows in prop_oneof![Just(1_usize), Just(7), Just(31), Just(33)],
        cols in prop_oneof![Just(1_usize), Just(7), Just(31), Just(33), Just(65), Just(300)],
        sparsity in 0.0..0.95_f64,
    ) {
        let Some(file) = as_integers(integers, pattern, rows, cols, sparsity) else { return Ok(()) };
        let bytes = file.to_bytes().unwrap();
        let read = PackedFile::read(bytes.as_slice()).unwrap();
        prop_assert_eq!(&read, &file);
        prop_assert_eq!(read.to_bytes().unwrap(), bytes);
        let Entry::Packed(entry) = &read.entries["w"] else { panic!("not packed") };
        prop_assert_eq!(read.entries["w"].value_type(), integers.into());
        let mut again = entry.packed.clone();
        again.round(entry.scales.as_ref().unwrap());
        prop_assert_eq!(&again, &entry.packed);
    }
}

#[test]
fn integers_of_another_number_than_their_shape_are_refused_by_name() {
    for integers in [Integers::Int8, Integers::Int4] {
        let mut file = as_integers(integers, Pattern::balanced(4), 8, 8, 0.5).unwrap();
        for count in [0, 63, 65] {
            let Some(Entry::Dense { values, .. }) = file.entries.get_mut("embedding") else {
                panic!()
            };
            *values = vec![0.0; count];
            let error = file.to_bytes().unwrap_err().to_string();
            assert!(error.contains("embedding") && error.contains(&format!("{count} ")), "{error}");
        }
    }
}

#[test]
fn scales_of_levels_round_with_a_smaller_error_than_levels_of_one_distance() {
    let values: Vec<f32> = (0..64 * 64)
        .map(|i| ((i * 7919 + 13) % 10_007) as f32 / 5003.5 - 1.0)
        .map(|v| v * v * v)
        .collect();
    let mut rounded = values.clone();
    DenseScales::choose(Integers::Int4, 0, &[64, 64], &values).round(&[64, 64], &mut rounded);
    let error = |rounded: &[f32]| -> f64 {
        values.iter().zip(rounded).map(|(a, b)| f64::from(a - b).powi(2)).sum()
    };
    let even = values.chunks(64).flat_map(|row| {
        let largest = row.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        row.iter().map(move |value| (value * 7.0 / largest).round() * largest / 7.0)
    });
    let even: Vec<f32> = even.collect();
    assert!(error(&rounded) < error(&even), "{} {}", error(&rounded), error(&even));
    // Values that are levels are exact, and so are blocks of zeros.
    let (levels, zeros) = (LEVELS.map(|level| f32::from(level) * -0.25), [0.0; 16]);
    for values in [levels, zeros] {
        let mut rounded = values;
        DenseScales::choose(Integers::Int4, 0, &[1, 16], &values).round(&[1, 16], &mut rounded);
        assert!(rounded.iter().zip(values).all(|(rounded, value)| *rounded == value));
    }
}

#[test]
fn the_scale_of_a_row_rounds_with_the_least_squared_error() {
    let error = |values: &[f32], scale: f32| -> f64 {
        let rounded = |value: f32| (value / scale).round().clamp(-127.0, 127.0) * scale;
        values.iter().map(|&value| f64::from(value - rounded(value)).powi(2)).sum()
    };
    let values: Vec<f32> =
        (0..500).map(|i| ((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0).collect();
    let largest = values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    let found = scale(&values);
    assert!(error(&values, found) <= error(&values, largest / 127.0));
    assert!(error(&values, found) < 1e-5 * values.len() as f64);
    // A row of one magnitude is exact.
    assert_eq!(scale(&[0.5, -0.5, 0.0]), 0.5 / 127.0);
    // Rows of zeros, and of numbers too small for a scale, round to zero.
    assert_eq!(scale(&[0.0; 3]), 0.0);
    assert_eq!(scale(&[]), 0.0);
    assert_eq!(scale(&[f32::MIN_POSITIVE]), 0.0);
}

/// A file whose bytes are changed, to see that it is refused.
struct Written {
    bytes: Vec<u8>,
    header: String,
}

impl Written {
    fn new(file: &PackedFile) -> Self {
        let bytes = file.to_bytes().unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header = std::str::from_utf8(&bytes[8..8 + length]).unwrap().to_string();
        Self { bytes, header }
    }

    /// Returns the place of an array.
    fn data(&self, name: &str) -> std::ops::Range<usize> {
        let json: serde_json::Value = serde_json::from_str(&self.header).unwrap();
        let offset = |end: usize| {
            8 + self.header.len() + json[name]["data_offsets"][end].as_u64().unwrap() as usize
        };
        offset(0)..offset(1)
    }

    /// Returns the bytes with another header.
    fn edited(&self, from: &str, to: &str) -> Vec<u8> {
        assert!(self.header.contains(from) && from.len() == to.len(), "{}", self.header);
        let mut wrong = self.bytes.clone();
        let header = self.header.replace(from, to);
        wrong[8..8 + header.len()].copy_from_slice(header.as_bytes());
        wrong
    }
}

/// Asserts that a file is refused by an error with these words.
fn refused(bytes: &[u8], words: &[&str]) {
    let error = PackedFile::read(bytes).unwrap_err().to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{error}: {words:?}");
}

#[test]
fn malformed_values_in_8_bits_are_refused_by_name() {
    let file = as_integers(Integers::Int8, Pattern::Balanced { block: 4 }, 3, 8, 0.5).unwrap();
    let written = Written::new(&file);
    for (value, found) in
        [(-1.0, "-1"), (f32::NAN, "NaN"), (f32::INFINITY, "inf"), (1e-40, "1e-40")]
    {
        for name in ["w.scales", "embedding.scales"] {
            let mut wrong = written.bytes.clone();
            wrong[written.data(name).start..][..4].copy_from_slice(&f32::to_le_bytes(value));
            refused(
                &wrong,
                &[name.split('.').next().unwrap(), "scale 0", found.trim_end_matches("e-40")],
            );
        }
    }
    for name in ["w.values", "embedding"] {
        let mut wrong = written.bytes.clone();
        wrong[written.data(name).start] = 0x80;
        refused(&wrong, &[name, "-128"]);
    }
    refused(&written.edited("scales_axis\\\":0", "scales_axis\\\":7"), &["embedding", "axis 7"]);
    refused(
        &written.edited("scales_axis\\\":0", "scales_axis\\\":1"),
        &["embedding.scales", "3 scales, expected 8"],
    );
    refused(&written.edited("\"w.scales", "\"w.scalez"), &["w.scales", "is missing"]);
    refused(
        &written.edited("version\":\"2", "version\":\"4"),
        &["burn-sparse.version", "`1`, `2` or `3`"],
    );
    refused(&written.edited("version\":\"2", "version\":\"1"), &["version 2", "version 1"]);
    let dense = written.edited("scales_axis", "scales_axid");
    refused(&dense, &["scales_axid"]);

    let mut short = file.clone();
    if let Some(Entry::Packed(entry)) = short.entries.get_mut("w") {
        entry.scales = Some(Scales::of_rows(vec![1.0; 2]));
    }
    assert!(short.to_bytes().unwrap_err().to_string().contains("2 scales, expected 3"));
}

#[test]
fn malformed_values_in_4_bits_are_refused_by_name() {
    let file = as_integers(Integers::Int4, Pattern::Balanced { block: 4 }, 3, 9, 0.5).unwrap();
    let written = Written::new(&file);
    for name in ["w.scales", "embedding.scales"] {
        for (scale, found) in [(0x7fc0_u16, "NaN"), (0x7f80, "inf"), (0x0001, "0.00000")] {
            let mut wrong = written.bytes.clone();
            wrong[written.data(name).start..][..2].copy_from_slice(&scale.to_le_bytes());
            refused(&wrong, &[name, "scale 0", found]);
        }
    }
    // An odd number of codes: the half that is left must be zero.
    for name in ["w.values", "embedding"] {
        let mut wrong = written.bytes.clone();
        wrong[written.data(name).end - 1] |= 0x10;
        refused(&wrong, &[name, "codes of 4 bits"]);
    }
    refused(
        &written.edited("scales_block\\\":64", "scales_block\\\":32"),
        &["scales of 32 columns", "64, 128, 256"],
    );
    refused(
        &written.edited("scales_block\\\":64", "scales_block\\\":0 "),
        &["scales of 0 columns"],
    );
    refused(
        &written.edited("\"scales_axis\\\":0,", "\"scales_axis\\\":1,"),
        &["embedding.scales", "expected [9, 1]"],
    );
    refused(
        &written.edited("\"shape\":[3,1]", "\"shape\":[1,3]"),
        &["scales", "shape is [1, 3], expected [3, 1]"],
    );
    refused(&written.edited("\"scales_block\\\"", "\"scales_blocc\\\""), &["scales_blocc"]);
    refused(&written.edited("version\":\"3", "version\":\"2"), &["version 3", "version 2"]);

    let mut other = file.clone();
    if let Some(Entry::Packed(entry)) = other.entries.get_mut("w") {
        entry.scales = Some(Scales::new(Integers::Int4, 9, 32, vec![1.0; 3]));
    }
    assert!(other.to_bytes().unwrap_err().to_string().contains("scales of 32 columns"));
    if let Some(Entry::Packed(entry)) = other.entries.get_mut("w") {
        entry.scales = Some(Scales::new(Integers::Int4, 9, 64, vec![0.1; 3]));
    }
    assert!(other.to_bytes().unwrap_err().to_string().contains("scale 0 is 0.1"));
}

#[test]
fn a_tensor_that_breaks_its_declared_pattern_is_not_written() {
    let pattern = Pattern::VectorWise { vector: 4, equal_groups: false };
    let mask = Mask::from_fn(8, 6, |row, col| col < 2 + row / 4).unwrap();
    let packed = Packed::pack(&pattern, &[1.0; 48], &mask, None).unwrap();
    let declared = Pattern::VectorWise { vector: 4, equal_groups: true };
    let view = View::Linear { rows: 8, cols: 6 };
    let file = file(entry(declared, view, packed, FloatType::F32));
    let mut bytes = Vec::new();
    let error = file.write(&mut bytes).unwrap_err();
    assert!(matches!(error, FormatError::Pattern { .. }));
    let expected = "parameter w: mask breaks vector-wise(vector=4) at group 1: expected 2 kept \
                    columns as in group 0, found 3";
    assert_eq!(error.to_string(), expected);
    assert!(bytes.is_empty());
}

#[test]
fn arrays_of_two_parameters_may_not_share_a_name() {
    let pattern = Pattern::Unstructured {};
    let mask = Mask::full(1, 2).unwrap();
    let packed = Packed::pack(&pattern, &[1.0, 2.0], &mask, None).unwrap();
    let view = View::Linear { rows: 1, cols: 2 };
    let mut file = file(entry(pattern, view, packed, FloatType::F32));
    let (layer, shape, values) = ("Linear".into(), vec![1], vec![0.5]);
    let dense = Entry::Dense { layer, shape, values, float: FloatType::F32, scales: None };
    file.entries.insert("w.values".into(), dense);
    let error = file.to_bytes().unwrap_err().to_string();
    assert_eq!(error, "tensor w.values: belongs to two parameters");
}

#[test]
fn packed_files_are_as_small_as_promised() {
    for (pattern, sparsity, most) in [
        (Pattern::ShflBw { vector: 32, equal_groups: true }, 0.75, 0.265),
        (Pattern::ShflBw { vector: 32, equal_groups: true }, 0.9, 0.115),
        (Pattern::Balanced { block: 32 }, 0.75, 0.32),
        (Pattern::Balanced { block: 32 }, 0.9, 0.13),
    ] {
        for (rows, cols) in [(512, 784), (1024, 1024), (2048, 512)] {
            let (weights, mask, order) =
                pruned(&pattern, rows, cols, sparsity, FloatType::F32).unwrap();
            let packed = Packed::pack(&pattern, &weights, &mask, order.as_ref()).unwrap();
            let view = View::Linear { rows, cols };
            let bytes = file(entry(pattern, view, packed, FloatType::F32)).to_bytes().unwrap();
            let share = bytes.len() as f64 / (4 * rows * cols) as f64;
            assert!(share <= most, "{pattern} {rows}x{cols} at {sparsity}: {share}");
        }
    }
}
