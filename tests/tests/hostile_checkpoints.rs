//! Well-formed safetensors files whose metadata lies: an error each, before memory is taken for it.

use std::collections::HashMap;

use burn_sparse::checkpoint::Checkpoint;
use safetensors::tensor::{Dtype, TensorView};

const HASH: &str = "0123456789abcdef";

/// A file with a packed parameter `w` of these arrays, described as `pattern` and `view` say.
fn refused(pattern: &str, view: &str, more: &str, arrays: &[(&str, Dtype, Vec<u8>)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    let info = format!(
        r#"{{"w":{{"layer":"Linear","shape":[4,4],"packed":{{"pattern":{pattern},"view":{view},
        "sparsity":0.5,"mask_hash":"{HASH}"{more}}}}}}}"#
    );
    let metadata = HashMap::from([
        ("burn-sparse.version".to_string(), "1".to_string()),
        ("burn-sparse.tensors".to_string(), info),
    ]);
    let views: Vec<_> = arrays
        .iter()
        .map(|(name, dtype, bytes)| {
            let count = bytes.len() * 8 / dtype.bitsize();
            (format!("w.{name}"), TensorView::new(*dtype, vec![count], bytes).unwrap())
        })
        .collect();
    std::fs::write(&path, safetensors::serialize(views, Some(metadata)).unwrap()).unwrap();
    Checkpoint::read(&path).unwrap_err().to_string()
}

fn floats(count: usize) -> Vec<u8> {
    (0..count).flat_map(|i| (i as f32 + 1.0).to_le_bytes()).collect()
}

fn ids(ids: &[u16]) -> Vec<u8> {
    ids.iter().flat_map(|id| id.to_le_bytes()).collect()
}

const SHFL: &str = r#"{"kind":"shfl-bw","vector":2}"#;
const BALANCED: &str = r#"{"kind":"balanced","block":4}"#;
const FOUR: &str = r#"{"linear":{"rows":4,"cols":4}}"#;

#[test]
fn sizes_that_the_file_cannot_mean_are_refused() {
    for view in [
        r#"{"linear":{"rows":65535,"cols":65535}}"#,
        r#"{"linear":{"rows":4294967295,"cols":1}}"#,
        r#"{"linear":{"rows":18446744073709551615,"cols":18446744073709551615}}"#,
        r#"{"conv":{"rows":4,"channels":4,"kernel":[4294967296,4294967296,4294967296]}}"#,
    ] {
        let arrays = [("values", Dtype::F32, vec![]), ("columns", Dtype::U16, vec![])];
        let error = refused(SHFL, view, "", &arrays);
        assert!(error.contains("more than a file of") && error.contains("tensor w"), "{error}");
    }
}

#[test]
fn indices_that_contradict_each_other_are_refused() {
    let shfl = |columns: &[u16], order: &[u16], values: usize| {
        refused(
            SHFL,
            FOUR,
            "",
            &[
                ("values", Dtype::F32, floats(values)),
                ("columns", Dtype::U16, ids(columns)),
                ("row_order", Dtype::U16, ids(order)),
            ],
        )
    };
    for (error, hint) in [
        (shfl(&[0, 9], &[0, 1, 2, 3], 4), "columns of group 1"),
        (shfl(&[0, 1, 1, 1], &[0, 1, 2, 3], 8), "columns of group 1"),
        (shfl(&[0, 1, 2], &[0, 1, 2, 3], 6), "multiple of 2 groups"),
        (shfl(&[], &[0, 1, 2, 3], 0), "number of columns is 0"),
        (shfl(&[0, 1], &[0, 1, 2, 2], 4), "names row 2 again"),
        (shfl(&[0, 1], &[0, 1, 2, 9], 4), "names row 9"),
        (shfl(&[0, 1], &[0, 1, 2], 4), "row order length"),
        (shfl(&[0, 1], &[0, 1, 2, 3], 5), "number of values is 5"),
        (shfl(&[0, 1], &[0, 1, 2, 3], 4), "hash is "),
    ] {
        assert!(error.contains(hint), "{error}");
    }
    let balanced = |kept: usize, indices: &[u8], values: usize| {
        let more = format!(r#","kept":{kept}"#);
        let arrays =
            [("values", Dtype::F32, floats(values)), ("indices", Dtype::U8, indices.to_vec())];
        refused(BALANCED, FOUR, &more, &arrays)
    };
    for (error, hint) in [
        (balanced(1, &[0, 1, 2, 4], 4), "indices of row 3, block 0"),
        (balanced(2, &[0, 1, 1, 0, 0, 1, 0, 1], 8), "indices of row 1, block 0"),
        (balanced(5, &[0; 20], 20), "kept weights of a block is 5"),
        (balanced(1, &[0, 1, 2], 4), "number of indices is 3"),
        (balanced(1, &[0, 1, 2, 3, 0, 1, 2, 3], 8), "number of values is 8"),
        (balanced(1, &[0, 1, 2, 3], 4), "hash is "),
    ] {
        assert!(error.contains(hint), "{error}");
    }
}

#[test]
fn runs_that_contradict_each_other_are_refused() {
    // Two groups of two rows, one run of two columns each, one value a row.
    let hinm = |columns: &[u16], order: &[u16], values: usize, indices: &[u8]| {
        let arrays = [
            ("values", Dtype::F32, floats(values)),
            ("columns", Dtype::U16, ids(columns)),
            ("row_order", Dtype::U16, ids(order)),
            ("indices", Dtype::U8, indices.to_vec()),
        ];
        refused(r#"{"kind":"hinm","vector":2,"keep":1,"of":2}"#, FOUR, "", &arrays)
    };
    let order = [0, 2, 1, 3];
    for (error, hint) in [
        (hinm(&[0, 3, 1, 9], &order, 4, &[0, 1, 0, 1]), "columns of group 1"),
        (hinm(&[3, 0, 1, 2], &order, 4, &[0, 1, 0, 1]), "columns of group 0"),
        (hinm(&[0, 1, 1, 2, 0, 1, 2, 3], &order, 8, &[0; 8]), "columns of group 0"),
        (hinm(&[0, 3, 1], &order, 4, &[0, 1, 0, 1]), "multiple of 2 groups of 2"),
        (hinm(&[0, 3, 1, 2], &order, 5, &[0, 1, 0, 1]), "number of values is 5"),
        (hinm(&[0, 3, 1, 2], &order, 4, &[0, 1, 0]), "number of indices is 3"),
        (hinm(&[0, 3, 1, 2], &order, 4, &[0, 1, 0, 2]), "indices of place 3, run 0"),
        (hinm(&[0, 3, 1, 2], &[0, 2, 1], 4, &[0, 1, 0, 1]), "row order length"),
        (hinm(&[0, 3, 1, 2], &[0, 2, 1, 1], 4, &[0, 1, 0, 1]), "names row 1 again"),
        (hinm(&[0, 3, 1, 2], &order, 4, &[0, 1, 0, 1]), "hash is "),
    ] {
        assert!(error.contains(hint), "{error}");
    }
}

#[test]
fn missing_arrays_wrong_types_and_unknown_patterns_are_refused() {
    let error = refused(SHFL, FOUR, "", &[("values", Dtype::F32, floats(4))]);
    assert!(error.contains("tensor w.columns: is missing"), "{error}");
    let error = refused(
        SHFL,
        FOUR,
        "",
        &[("values", Dtype::I32, floats(4)), ("columns", Dtype::U16, ids(&[0, 1]))],
    );
    assert!(error.contains("tensor w.values: type is I32, expected [F32, F16, BF16]"), "{error}");
    let error = refused(r#"{"kind":"magic"}"#, FOUR, "", &[]);
    assert!(error.contains("unknown variant `magic`"), "{error}");
    let error = refused(
        r#"{"kind":"balanced","block":0}"#,
        FOUR,
        r#","kept":1"#,
        &[("values", Dtype::F32, floats(4)), ("indices", Dtype::U8, vec![0; 4])],
    );
    assert!(error.contains("block is 0"), "{error}");
}
