//! Invalid files: each is rejected with an error that names the place, before memory is allocated for
//! it.

use burn_sparse_pattern::format::PackedFile;
use serde_json::{Value, json};

/// Builds a file from this header and data, without the library.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn refused(bytes: &[u8], hint: &str) {
    let error = PackedFile::read(bytes).unwrap_err().to_string();
    assert!(error.contains(hint), "`{hint}` is not in: {error}");
}

fn floats(count: usize) -> Vec<u8> {
    (0..count).flat_map(|i| (i as f32 + 1.0).to_le_bytes()).collect()
}

fn ids(ids: &[u16]) -> Vec<u8> {
    ids.iter().flat_map(|id| id.to_le_bytes()).collect()
}

type Arrays<'a> = &'a [(&'a str, &'a str, Vec<u8>)];

/// Builds a header and data that hold these flat arrays, with `tensors` as their description.
fn parts(tensors: &str, arrays: Arrays<'_>) -> (Value, Vec<u8>) {
    let metadata = json!({"burn-sparse.version": "1", "burn-sparse.tensors": tensors});
    let (mut header, mut data) = (json!({ "__metadata__": metadata }), Vec::new());
    for (name, dtype, bytes) in arrays {
        let width = match *dtype {
            "U8" => 1,
            "U16" | "F16" | "BF16" => 2,
            "F64" => 8,
            _ => 4,
        };
        let from = data.len();
        data.extend_from_slice(bytes);
        let offsets = [from, data.len()];
        header[name] =
            json!({"dtype": dtype, "shape": [bytes.len() / width], "data_offsets": offsets});
    }
    (header, data)
}

/// Returns the metadata of one packed parameter `w`.
fn described(pattern: Value, view: Value, shape: Value, kept: Option<usize>) -> String {
    let mut packed =
        json!({"pattern": pattern, "view": view, "sparsity": 0.5, "mask_hash": "0123456789abcdef"});
    if let Some(kept) = kept {
        packed["kept"] = kept.into();
    }
    json!({"w": {"layer": "Linear", "shape": shape, "packed": packed}}).to_string()
}

fn packed(pattern: Value, kept: Option<usize>, arrays: Arrays<'_>) -> Vec<u8> {
    let view = json!({"linear": {"rows": 4, "cols": 4}});
    let (header, data) = parts(&described(pattern, view, json!([4, 4]), kept), arrays);
    file(&header.to_string(), &data)
}

fn shfl(columns: &[u16], order: &[u16], values: usize) -> Vec<u8> {
    packed(
        json!({"kind": "shfl-bw", "vector": 2}),
        None,
        &[
            ("w.values", "F32", floats(values)),
            ("w.columns", "U16", ids(columns)),
            ("w.row_order", "U16", ids(order)),
        ],
    )
}

fn unequal(offsets: &[u32]) -> Vec<u8> {
    packed(
        json!({"kind": "shfl-bw", "vector": 2, "equal_groups": false}),
        None,
        &[
            ("w.values", "F32", floats(6)),
            ("w.columns", "U16", ids(&[0, 1, 2])),
            ("w.group_offsets", "U32", offsets.iter().flat_map(|o| o.to_le_bytes()).collect()),
            ("w.row_order", "U16", ids(&[0, 1, 2, 3])),
        ],
    )
}

fn balanced(kept: usize, indices: &[u8], values: usize) -> Vec<u8> {
    let arrays = [("w.values", "F32", floats(values)), ("w.indices", "U8", indices.to_vec())];
    packed(json!({"kind": "balanced", "block": 4}), Some(kept), &arrays)
}

/// Builds a file with two groups of two rows, runs of two columns, and one value per run.
fn hinm(columns: &[u16], order: &[u16], values: usize, indices: &[u8]) -> Vec<u8> {
    let arrays = [
        ("w.values", "F32", floats(values)),
        ("w.columns", "U16", ids(columns)),
        ("w.row_order", "U16", ids(order)),
        ("w.indices", "U8", indices.to_vec()),
    ];
    packed(json!({"kind": "hinm", "vector": 2, "keep": 1, "of": 2}), None, &arrays)
}

fn unstructured(bitmask: &[u8], values: usize) -> Vec<u8> {
    let arrays = [("w.values", "F32", floats(values)), ("w.bitmask", "U8", bitmask.to_vec())];
    packed(json!({"kind": "unstructured"}), None, &arrays)
}

macro_rules! refuses {
    ($($(#[$meta:meta])* $name:ident: $bytes:expr => $hint:expr;)*) => {
        $(
            #[test]
            $(#[$meta])*
            fn $name() {
                refused(&$bytes, $hint);
            }
        )*
    };
}

/// Returns a valid file, except for what is replaced in its header.
fn header_with(from: &str, to: &str) -> Vec<u8> {
    let tensors = json!({"b": {"layer": "Linear", "shape": [2]}}).to_string();
    let (header, data) = parts(&tensors, &[("b", "F32", floats(2))]);
    let header = header.to_string();
    let changed = header.replacen(from, to, 1);
    assert!(from.is_empty() || changed != header, "`{from}` is not in {header}");
    file(&changed, &data)
}

#[test]
fn what_the_others_are_made_from_is_valid() {
    assert_eq!(PackedFile::read(header_with("", "").as_slice()).unwrap().entries.len(), 1);
}

refuses! {
    an_empty_file: [0_u8; 0] => "it has 0 bytes";
    a_file_cut_in_its_length: [1_u8, 2, 3] => "it has 3 bytes";
    a_header_longer_than_the_file: file("{}", &[])[..9] => "the header claims 2 bytes, the file has 9";
    a_header_of_all_the_bytes_there_are: u64::MAX.to_le_bytes() => "the header claims 18446744073709551615";
    a_header_that_is_no_json: file("{nonsense", &[]) => "no complete safetensors file";
    a_header_that_is_no_object: file("[]", &[]) => "a safetensors header";
    a_header_of_deeply_nested_json: file(&"[".repeat(100_000), &[]) => "no complete safetensors file";
    data_cut_short: { let all = header_with("", ""); all[..all.len() - 1].to_vec() } => "7 bytes of data, the header describes 8";
    data_without_a_description: [header_with("", ""), vec![0]].concat() => "9 bytes of data, the header describes 8";
    a_tensor_described_twice: header_with(r#""b":{"data"#, r#""b":{"data_offsets":[0,8],"dtype":"F32","shape":[2]},"b":{"data"#) => "tensor b occurs twice";
    metadata_given_twice: header_with(r#"{"__metadata__""#, r#"{"__metadata__":{},"__metadata__""#) => "`__metadata__` occurs twice";
    a_metadata_key_given_twice: header_with(r#""burn-sparse.version":"1""#, r#""burn-sparse.version":"1","burn-sparse.version":"1""#) => "`burn-sparse.version` occurs twice";
    a_parameter_described_twice: header_with(r#"{\"b\":"#, r#"{\"b\":{\"layer\":\"Linear\",\"shape\":[2]},\"b\":"#) => "`b` occurs twice";
    offsets_that_overlap: header_with(r#""b":{"data"#, r#""c":{"data_offsets":[4,8],"dtype":"F32","shape":[1]},"b":{"data"#) => "tensor c stands at bytes 4 to 8 after 8";
    offsets_with_a_hole: header_with("[0,8]", "[4,12]") => "tensor b stands at bytes 4 to 12 after 0";
    offsets_that_run_backwards: header_with("[0,8]", "[8,0]") => "tensor b stands at bytes 8 to 0";
    offsets_at_the_end_of_all_numbers: header_with("[0,8]", "[0,18446744073709551615]") => "tensor b stands at";
    a_shape_that_overflows: header_with("\"shape\":[2]}", "\"shape\":[4294967296,4294967296,4294967296]}") => "tensor b stands at";
    a_negative_shape: header_with("\"shape\":[2]}", "\"shape\":[-2]}") => "no complete safetensors file";
    a_shape_unlike_its_data: header_with("\"shape\":[2]}", "\"shape\":[3]}") => "tensor b stands at";
    a_type_that_nobody_knows: header_with("F32", "F31") => "no complete safetensors file";
    a_parameter_of_another_type: header_with("\"dtype\":\"F32\"", "\"dtype\":\"I32\"") => "tensor b: type is I32, expected [F32, F16, BF16]";
    a_parameter_of_another_shape: header_with(r#"\"shape\":[2]"#, r#"\"shape\":[1,2]"#) => "tensor b: shape is [2], expected [1, 2]";
    no_version: header_with(r#""burn-sparse.version":"1""#, r#""x":"1""#) => "metadata `burn-sparse.version` is missing, expected `1`";
    an_unknown_version: header_with(r#""burn-sparse.version":"1""#, r#""burn-sparse.version":"4""#) => "metadata `burn-sparse.version` is `4`, expected `1`, `2` or `3`";
    no_description: header_with("burn-sparse.tensors", "tensors") => "metadata `burn-sparse.tensors` is missing";
    an_unknown_key: header_with(r#"\"layer\""#, r#"\"magic\":1,\"layer\""#) => "unknown field `magic`";
    a_parameter_without_a_tensor: header_with(r#"{\"b\":"#, r#"{\"a\":{\"layer\":\"Linear\",\"shape\":[2]},\"b\":"#) => "tensor a: is missing";
    a_tensor_without_a_parameter: header_with(r#"{\"b\":{\"layer\":\"Linear\",\"shape\":[2]}}"#, "{}") => "tensor b: belongs to no parameter";

    columns_out_of_range: shfl(&[0, 9], &[0, 1, 2, 3], 4) => "columns of group 1";
    columns_that_repeat: shfl(&[0, 1, 1, 1], &[0, 1, 2, 3], 8) => "columns of group 1";
    columns_that_fall: shfl(&[1, 0, 0, 1], &[0, 1, 2, 3], 8) => "columns of group 0";
    columns_that_no_groups_share_evenly: shfl(&[0, 1, 2], &[0, 1, 2, 3], 6) => "multiple of 2 groups";
    no_columns_at_all: shfl(&[], &[0, 1, 2, 3], 0) => "number of columns is 0";
    a_row_order_that_repeats_a_row: shfl(&[0, 1], &[0, 1, 2, 2], 4) => "names row 2 again";
    a_row_order_out_of_range: shfl(&[0, 1], &[0, 1, 2, 9], 4) => "names row 9";
    a_short_row_order: shfl(&[0, 1], &[0, 1, 2], 4) => "row order length";
    values_that_no_column_has: shfl(&[0, 1], &[0, 1, 2, 3], 5) => "number of values is 5";
    a_mask_that_is_not_the_hashed_one: shfl(&[0, 1], &[0, 1, 2, 3], 4) => "hash is ";

    group_offsets_that_fall: unequal(&[0, 3, 2]) => "rising from 0 to 3";
    group_offsets_that_start_late: unequal(&[1, 2, 3]) => "rising from 0 to 3";
    group_offsets_that_end_early: unequal(&[0, 1, 2]) => "rising from 0 to 3";
    group_offsets_past_the_columns: unequal(&[0, u32::MAX, 3]) => "rising from 0 to 3";
    too_few_group_offsets: unequal(&[0, 3]) => "number of group offsets is 2";
    unequal_groups_that_claim_to_be_equal: packed(
        json!({"kind": "vector-wise", "vector": 2}),
        None,
        &[
            ("w.values", "F32", floats(6)),
            ("w.columns", "U16", ids(&[0, 1, 2])),
            ("w.group_offsets", "U32", [0_u32, 1, 3].iter().flat_map(|o| o.to_le_bytes()).collect()),
        ],
    ) => "mask breaks vector-wise(vector=2) at group 1: expected 1 kept columns as in group 0, found 2";
    rows_that_move_under_a_pattern_that_moves_none: packed(
        json!({"kind": "vector-wise", "vector": 2}),
        None,
        &[
            ("w.values", "F32", floats(4)),
            ("w.columns", "U16", ids(&[0, 1])),
            ("w.row_order", "U16", ids(&[3, 1, 2, 0])),
        ],
    ) => "expected rows in their places, found a row order";
    blocks_with_a_missing_column: packed(
        json!({"kind": "block-wise", "block": 2}),
        None,
        &[("w.values", "F32", floats(4)), ("w.columns", "U16", ids(&[0, 3]))],
    ) => "mask breaks block-wise(block=2)";

    indices_outside_their_block: balanced(1, &[0, 1, 2, 4], 4) => "indices of row 3, block 0";
    indices_that_fall: balanced(2, &[0, 1, 1, 0, 0, 1, 0, 1], 8) => "indices of row 1, block 0";
    more_kept_than_a_block_has: balanced(5, &[0; 20], 20) => "kept weights of a block is 5";
    fewer_indices_than_values: balanced(1, &[0, 1, 2], 4) => "number of indices is 3";
    values_of_more_blocks_than_there_are: balanced(1, &[0, 1, 2, 3, 0, 1, 2, 3], 8) => "number of values is 8";
    no_values: balanced(1, &[], 0) => "number of values is 0";
    kept_at_the_end_of_all_numbers: balanced(usize::MAX, &[0, 1, 2, 3], 4) => "kept weights of a block";
    balanced_without_its_count: packed(
        json!({"kind": "balanced", "block": 4}),
        None,
        &[("w.values", "F32", floats(4)), ("w.indices", "U8", vec![0; 4])],
    ) => "tensor w: its description lacks `kept`";
    n_of_m_that_keeps_another_n: packed(
        json!({"kind": "n-of-m", "keep": 2, "of": 4}),
        Some(1),
        &[("w.values", "F32", floats(4)), ("w.indices", "U8", vec![0; 4])],
    ) => "mask breaks n-of-m(keep=2,of=4)";
    kept_where_nothing_is_counted: packed(
        json!({"kind": "unstructured"}),
        Some(1),
        &[("w.values", "F32", floats(4)), ("w.bitmask", "U8", vec![1; 4])],
    ) => "its description has `kept`, which unstructured does not count";
    fewer_kept_than_a_short_row_claims: packed(
        json!({"kind": "balanced", "block": 32}),
        Some(3),
        &[("w.values", "F32", floats(4)), ("w.indices", "U8", vec![0; 4])],
    ) => "number of values is 4, expected 4 rows of 3 to 3";
    a_block_of_nothing: packed(
        json!({"kind": "balanced", "block": 0}),
        Some(1),
        &[("w.values", "F32", floats(4)), ("w.indices", "U8", vec![0; 4])],
    ) => "block is 0";

    run_columns_out_of_range: hinm(&[0, 3, 1, 9], &[0, 2, 1, 3], 4, &[0, 1, 0, 1]) => "columns of group 1";
    run_columns_that_fall: hinm(&[3, 0, 1, 2], &[0, 2, 1, 3], 4, &[0, 1, 0, 1]) => "columns of group 0";
    runs_that_overlap: hinm(&[0, 1, 1, 2, 0, 1, 2, 3], &[0, 2, 1, 3], 8, &[0; 8]) => "columns of group 0";
    half_a_run: hinm(&[0, 3, 1], &[0, 2, 1, 3], 4, &[0, 1, 0, 1]) => "multiple of 2 groups of 2";
    values_that_no_run_has: hinm(&[0, 3, 1, 2], &[0, 2, 1, 3], 5, &[0, 1, 0, 1]) => "number of values is 5";
    too_few_places: hinm(&[0, 3, 1, 2], &[0, 2, 1, 3], 4, &[0, 1, 0]) => "number of indices is 3";
    places_outside_their_run: hinm(&[0, 3, 1, 2], &[0, 2, 1, 3], 4, &[0, 1, 0, 2]) => "indices of place 3, run 0";
    a_short_order_of_runs: hinm(&[0, 3, 1, 2], &[0, 2, 1], 4, &[0, 1, 0, 1]) => "row order length";
    more_runs_than_columns: hinm(&[0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2], &[0, 2, 1, 3], 12, &[0; 12]) => "at most 2 runs of 2 columns";

    bits_past_the_last_column: unstructured(&[1, 1, 1, 0x11], 5) => "bitmask row 3";
    values_without_bits: unstructured(&[1, 1, 1, 1], 5) => "number of values is 5, expected 4";
    a_short_bitmask: unstructured(&[1, 1, 1], 3) => "bitmask length is 3";

    a_missing_array: packed(json!({"kind": "shfl-bw", "vector": 2}), None, &[("w.values", "F32", floats(4))]) => "tensor w.columns: is missing";
    an_array_too_many: packed(
        json!({"kind": "unstructured"}),
        None,
        &[("w.values", "F32", floats(4)), ("w.bitmask", "U8", vec![0, 1, 0, 0]), ("w.columns", "U16", ids(&[1]))],
    ) => "number of values is 4";
    ids_of_another_type: packed(
        json!({"kind": "shfl-bw", "vector": 2}),
        None,
        &[("w.values", "F32", floats(4)), ("w.columns", "I32", vec![0; 8])],
    ) => "tensor w.columns: type is I32, expected [U16, U32]";
    values_of_another_type: packed(
        json!({"kind": "shfl-bw", "vector": 2}),
        None,
        &[("w.values", "F64", vec![0; 32]), ("w.columns", "U16", ids(&[0, 1]))],
    ) => "tensor w.values: type is F64, expected [F32, F16, BF16]";
    an_unknown_pattern: packed(json!({"kind": "magic"}), None, &[]) => "unknown variant `magic`";
    an_unknown_parameter_of_a_pattern: packed(json!({"kind": "balanced", "blok": 4}), None, &[]) => "unknown field `blok`";
}

#[test]
fn sizes_that_the_file_cannot_mean() {
    let end = usize::MAX;
    for view in [
        json!({"linear": {"rows": 65535, "cols": 65535}}),
        json!({"linear": {"rows": 4294967295_u32, "cols": 1}}),
        json!({"linear": {"rows": end, "cols": end}}),
        json!({"conv": {"rows": 4, "channels": 4, "kernel": [4294967296_u64, 4294967296_u64, 4]}}),
    ] {
        let tensors = described(json!({"kind": "shfl-bw"}), view, json!([4, 4]), None);
        let arrays = [("w.values", "F32", vec![]), ("w.columns", "U16", vec![])];
        let (header, data) = parts(&tensors, &arrays);
        refused(&file(&header.to_string(), &data), "more than a file with");
    }
}

#[test]
fn a_view_that_is_not_of_the_stored_shape() {
    // Uses a file with a correct hash, so that nothing else is wrong.
    let bytes = std::fs::read("tests/golden/balanced.safetensors").unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&bytes[8..8 + length]).unwrap();
    let turned = header.replace("[10,6]", "[6,10]");
    let hint = "a view of [10, 6], the layer stores [6, 10]";
    refused(&file(&turned, &bytes[8 + length..]), hint);
}

#[test]
fn many_masks_that_are_each_small_enough() {
    let view = json!({"linear": {"rows": 4096, "cols": 4096}});
    let one = described(json!({"kind": "shfl-bw"}), view, json!([4096, 4096]), None);
    let one: Value = serde_json::from_str(&one).unwrap();
    let many: serde_json::Map<String, Value> =
        (0..5).map(|at| (format!("w{at}"), one["w"].clone())).collect();
    let (header, data) = parts(&Value::from(many).to_string(), &[]);
    refused(&file(&header.to_string(), &data), "tensor w4: claims 4096x4096 weights");
}

#[test]
fn an_array_that_two_parameters_would_read() {
    let bytes = std::fs::read("tests/golden/balanced.safetensors").unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&bytes[8..8 + length]).unwrap();
    let twice = r#"{\"fc.weight.values\":{\"layer\":\"Linear\",\"shape\":[6,5]},\"fc.bias\""#;
    let header = header.replacen(r#"{\"fc.bias\""#, twice, 1);
    refused(&file(&header, &bytes[8 + length..]), "fc.weight.values: belongs to two parameters");
}

#[test]
fn a_sparsity_that_is_not_the_masks() {
    let bytes = std::fs::read("tests/golden/balanced.safetensors").unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&bytes[8..8 + length]).unwrap();
    let header = header.replacen(r#"\"sparsity\":0.5"#, r#"\"sparsity\":0.9"#, 1);
    refused(&file(&header, &bytes[8 + length..]), "sparsity is 0.9, the mask has 0.5");
}
