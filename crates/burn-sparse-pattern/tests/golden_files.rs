//! Files of all versions, compared byte by byte: a file that was written once must stay readable forever.
//!
//! `BLESS=1 cargo test --test golden_files` rewrites them, which only a new version of the format may
//! require. A reader in another language, written from the specification alone, reads the same files
//! (`tests/python/interchange.py`).

use std::path::PathBuf;

use burn_sparse_pattern::format::{
    DenseScales, Entry, FloatType, Integers, PackedEntry, PackedFile, View,
};
use burn_sparse_pattern::{Packed, Pattern, Scores, Search};

const ROWS: usize = 6;
const COLS: usize = 10;

/// Returns weights that every float type represents exactly: signed eighths.
fn weights() -> Vec<f32> {
    (0..ROWS * COLS).map(|i| ((i * 37 + 11) % 61) as f32 / 8.0 - 3.75).collect()
}

fn golden(pattern: &str, float: FloatType) -> PackedFile {
    let pattern: Pattern = pattern.parse().unwrap();
    let weights = weights();
    let scores: Vec<f32> = weights.iter().map(|w| w.abs()).collect();
    let scores = Scores::new(ROWS, COLS, &scores).unwrap();
    let sparsity = pattern.fixed_sparsity().unwrap_or(0.6);
    let found = pattern.project(&scores, sparsity, &Search::default()).unwrap();
    let packed = Packed::pack(&pattern, &weights, &found.mask, found.row_order.as_ref()).unwrap();
    let (layer, view) = ("Linear".to_string(), View::Linear { rows: ROWS, cols: COLS });
    let packed = PackedEntry { layer: layer.clone(), view, pattern, packed, float, scales: None };
    let bias =
        Entry::Dense { layer, shape: vec![3], values: vec![0.5, -1.0, 2.0], float, scales: None };
    PackedFile {
        entries: [("fc.bias".into(), bias), ("fc.weight".into(), Entry::Packed(packed))].into(),
        metadata: [("burn-sparse.tool".into(), "golden".into())].into(),
    }
}

/// Returns the file of integers: of the packed weight, and of a dense embedding.
fn golden_as(integers: Integers, pattern: &str) -> PackedFile {
    let mut file = golden(pattern, FloatType::F32);
    if let Some(Entry::Packed(entry)) = file.entries.get_mut("fc.weight") {
        let scales = entry.packed.scales(integers);
        entry.packed.round(&scales);
        entry.scales = Some(scales);
    }
    let (layer, shape, mut values) = ("Embedding".to_string(), vec![ROWS, COLS], weights());
    let scales = DenseScales::choose(integers, 0, &shape, &values);
    scales.round(&shape, &mut values);
    let (float, scales) = (FloatType::F32, Some(scales));
    let entry = Entry::Dense { layer, shape, values, float, scales };
    file.entries.insert("embedding.weight".into(), entry);
    file
}

/// Compares a file with its golden bytes, and returns the unpacked weight.
fn compare(name: &str, file: &PackedFile) -> Vec<f32> {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path(name), file.to_bytes().unwrap()).unwrap();
    }
    let bytes = std::fs::read(path(name)).unwrap();
    let read = PackedFile::read(bytes.as_slice()).unwrap();
    assert_eq!(read, *file, "{name}");
    assert!(read.to_bytes().unwrap() == bytes, "{name} is written otherwise");
    let Entry::Packed(packed) = &read.entries["fc.weight"] else { panic!("not packed") };
    packed.packed.unpack()
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format!("{name}.safetensors"))
}

#[test]
fn every_layout_is_written_and_read_as_ever() {
    for (name, pattern, float) in [
        ("unstructured", "unstructured", FloatType::F32),
        ("balanced", "balanced(block=4)", FloatType::F32),
        ("balanced-bf16", "balanced(block=4)", FloatType::BF16),
        ("n-of-m", "n-of-m(keep=2,of=5)", FloatType::F16),
        ("vector-wise", "vector-wise(vector=4)", FloatType::F32),
        ("shfl-bw", "shfl-bw(vector=2)", FloatType::F32),
        ("shfl-bw-unequal", "shfl-bw(vector=2,equal_groups=false)", FloatType::F16),
        ("block-wise", "block-wise(block=3)", FloatType::F32),
        ("hinm", "hinm(vector=3,keep=1,of=2)", FloatType::F32),
    ] {
        let found = compare(name, &golden(pattern, float));
        assert!(found.iter().zip(weights()).all(|(found, w)| *found == 0.0 || *found == w));
    }
    // Half a step of the largest weight; or of the largest distance of two levels, and of a block's largest weight at that.
    for (integers, suffix, off) in
        [(Integers::Int8, "int8", 3.75 / 254.0), (Integers::Int4, "int4", 3.75 * 26.0 / 254.0)]
    {
        for (layout, pattern) in [
            ("unstructured", "unstructured"),
            ("balanced", "balanced(block=4)"),
            ("shfl-bw", "shfl-bw(vector=4,equal_groups=false)"),
            ("hinm", "hinm(vector=3,keep=1,of=2)"),
        ] {
            let name = format!("{layout}-{suffix}");
            let found = compare(&name, &golden_as(integers, pattern));
            let near = |found: f32, weight: f32| found == 0.0 || (found - weight).abs() <= off;
            assert!(found.iter().zip(weights()).all(|(found, w)| near(*found, w)), "{name}");
        }
    }
}

#[test]
fn a_golden_file_holds_these_bytes() {
    // Spells out a whole file, so that the specification can be compared with an example.
    let bytes = std::fs::read(path("balanced")).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&bytes[8..8 + length]).unwrap();
    assert!(length.is_multiple_of(8));
    assert_eq!(
        header.trim_end(),
        concat!(
            r#"{"__metadata__":{"burn-sparse.tensors":"{"#,
            r#"\"fc.bias\":{\"layer\":\"Linear\",\"shape\":[3]},"#,
            r#"\"fc.weight\":{\"layer\":\"Linear\",\"shape\":[10,6],\"packed\":{"#,
            r#"\"pattern\":{\"kind\":\"balanced\",\"block\":4},"#,
            r#"\"view\":{\"linear\":{\"rows\":6,\"cols\":10}},"#,
            r#"\"sparsity\":0.5,\"mask_hash\":\"30dcfb5766becee1\",\"kept\":2}}}","#,
            r#""burn-sparse.tool":"golden","burn-sparse.version":"1"},"#,
            r#""fc.bias":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},"#,
            r#""fc.weight.values":{"dtype":"F32","shape":[6,5],"data_offsets":[12,132]},"#,
            r#""fc.weight.indices":{"dtype":"U8","shape":[6,5],"data_offsets":[132,162]}}"#,
        )
    );
    let data = &bytes[8 + length..];
    let floats: Vec<f32> =
        data[12..132].chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(floats[..5], [-2.375, -3.75, -2.125, 2.5, -3.5]);
    let indices = [
        [0, 3, 1, 2, 0],
        [1, 3, 1, 2, 0],
        [1, 3, 0, 2, 0],
        [1, 3, 0, 2, 1],
        [1, 3, 0, 2, 1],
        [1, 2, 0, 2, 1],
    ];
    assert_eq!(data[132..], indices.concat());
}
