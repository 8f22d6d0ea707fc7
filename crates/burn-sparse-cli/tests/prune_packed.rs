//! Packed and sharded output of one-shot pruning without a model.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::json as value;
use support::{assert_refused, json, run, train};

const HALF: [&str; 4] = ["--pattern", "shfl-bw(vector=16)", "--sparsity", "0.5"];

fn noise(count: usize, seed: u64) -> Vec<u8> {
    let one = |i: u64| ((i + seed).wrapping_mul(6364136223846793005) >> 40) as f32 / 8e6 - 1.0;
    (0..count as u64).flat_map(|i| one(i).to_le_bytes()).collect()
}

/// Writes tensors of noise of these shapes, all f32 but `steps`.
fn write(path: &Path, tensors: &[(&str, &[usize])]) {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(name, shape)| match *name {
            "steps" => vec![0; 8 * shape.iter().product::<usize>()],
            name => noise(shape.iter().product(), name.len() as u64),
        })
        .collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape), bytes)| {
        let dtype = if *name == "steps" { Dtype::I64 } else { Dtype::F32 };
        (*name, TensorView::new(dtype, shape.to_vec(), bytes).unwrap())
    });
    std::fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

/// Returns the bytes of every tensor of a file.
fn tensors(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.tensors().into_iter().map(|(name, view)| (name, view.data().to_vec())).collect()
}

fn prune(folder: &Path, more: &[&str]) -> std::process::Output {
    run(folder, &[&["prune"], more, &HALF].concat())
}

#[test]
fn packed_weights_of_any_file_are_inspected_timed_and_exported_in_their_own_layout() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let shapes: [(&str, &[usize]); 4] = [
        ("a.weight", &[64, 48]),
        ("conv.weight", &[32, 24, 2, 2]),
        ("a.bias", &[64]),
        ("steps", &[2]),
    ];
    write(&folder.join("in.safetensors"), &shapes);
    let packed =
        prune(folder, &["in.safetensors", "--format", "packed", "--out", "packed.safetensors"]);
    let stderr = String::from_utf8_lossy(&packed.stderr);
    assert!(packed.status.success(), "{stderr}");
    assert!(stderr.contains("steps is left out"), "{stderr}");

    let found = json(folder, &["inspect", "packed.safetensors", "--json"]);
    let of = |name: &str| {
        let tensors = found["tensors"].as_array().unwrap();
        tensors.iter().find(|tensor| tensor["name"] == name).unwrap().clone()
    };
    assert_eq!(found["tensors"].as_array().unwrap().len(), 3);
    // The shape is that of the file, so that its orientation is known.
    assert_eq!(of("a.weight")["shape"], value!([64, 48]));
    assert_eq!(of("a.weight")["pattern"], "shfl-bw(vector=16)");
    assert_eq!(of("a.bias")["pattern"], value!(null));
    let timed = json(folder, &["bench", "packed.safetensors", "--batch", "1", "--json"]);
    let rows = timed["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0]["rows"], &rows[0]["cols"]), (&value!(64), &value!(48)));

    // Unpacked, it is the dense file that `prune` writes, to the bit.
    assert!(prune(folder, &["in.safetensors", "--out", "dense.safetensors"]).status.success());
    let export = ["export", "packed.safetensors", "--format", "dense", "--layout", "pytorch"];
    let export = run(folder, &[&export[..], &["--out", "unpacked.safetensors"]].concat());
    assert!(export.status.success(), "{}", String::from_utf8_lossy(&export.stderr));
    let mut dense = tensors(&folder.join("dense.safetensors"));
    dense.remove("steps").unwrap();
    assert_eq!(tensors(&folder.join("unpacked.safetensors")), dense);
}

#[test]
fn weights_packed_without_a_model_are_imported_into_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    train(folder, "run", &["train.dense_epochs=1", "train.prune_epochs=0", "prune=[]"]);
    let export =
        ["export", "run", "--format", "dense", "--layout", "pytorch", "--out", "d.safetensors"];
    assert!(run(folder, &export).status.success());
    let include = ["--include", "fc*"];
    let dense = [&["d.safetensors", "--out", "zeros.safetensors"][..], &include].concat();
    let packed = ["d.safetensors", "--format", "packed", "--out", "packed.safetensors"];
    assert!(prune(folder, &dense).status.success());
    assert!(prune(folder, &[&packed[..], &include].concat()).status.success());
    let evaluated = |file: &str| {
        let import = ["import", file, "--task", "glyphs-mlp", "--out", "in.safetensors"];
        let done = run(folder, &import);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        json(folder, &["eval", "in.safetensors", "--json"])
    };
    let (zeros, packed) = (evaluated("zeros.safetensors"), evaluated("packed.safetensors"));
    assert_eq!(packed["metric"], zeros["metric"]);
    assert_eq!(packed["layers"][0]["pattern"], "shfl-bw(vector=16)");
    assert_eq!(packed["layers"][2]["pattern"], "dense");

    let other = ["import", "packed.safetensors", "--task", "mnist-mlp", "--out", "x"];
    let hint = "fc1.weight is [256, 784] in the file, the model needs [512, 784]";
    assert_refused(&run(folder, &other), &[hint]);
    let rename = ["--rename", "fc1=net"];
    let renamed = ["import", "packed.safetensors", "--task", "glyphs-mlp", "--out", "x"];
    let renamed = [&renamed[..], &rename].concat();
    assert_refused(
        &run(folder, &renamed),
        &["the file lacks fc1.weight", "model lacks net.weight"],
    );
}

/// Writes two shards and their index, which places `names` in the shards with these numbers.
fn write_shards(folder: &Path, names: &[(&str, u8)]) {
    write(&folder.join("s1.safetensors"), &[("a.weight", &[64, 48]), ("steps", &[2])]);
    write(&folder.join("s2.safetensors"), &[("b.weight", &[32, 64])]);
    let map: BTreeMap<&str, String> =
        names.iter().map(|(name, shard)| (*name, format!("s{shard}.safetensors"))).collect();
    let index = value!({"metadata": {"total_size": 1}, "weight_map": map}).to_string();
    std::fs::write(folder.join("model.safetensors.index.json"), index).unwrap();
}

const PLACES: [(&str, u8); 3] = [("a.weight", 1), ("steps", 1), ("b.weight", 2)];
const INDEX: &str = "model.safetensors.index.json";

#[test]
fn the_shards_of_an_index_are_pruned_as_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_shards(folder, &PLACES);
    let done = prune(folder, &[INDEX, "--out", "out", "--json"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let names: Vec<&str> =
        report["tensors"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a.weight", "b.weight"]);
    let read = |path: &str| std::fs::read(folder.join(path)).unwrap();
    assert_eq!(read("out/model.safetensors.index.json"), read(INDEX));
    for shard in ["s1.safetensors", "s2.safetensors"] {
        assert!(prune(folder, &[shard, "--out", "alone.safetensors"]).status.success());
        assert_eq!(read(&format!("out/{shard}")), read("alone.safetensors"), "{shard}");
    }
    let again = prune(folder, &[INDEX, "--out", "out"]);
    assert_refused(&again, &["out/s1.safetensors already exists"]);
    assert_refused(&prune(folder, &[INDEX, "--out", "."]), &["already exists"]);

    let packed = prune(folder, &[INDEX, "--format", "packed", "--out", "packed.safetensors"]);
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    let found = json(folder, &["inspect", "packed.safetensors", "--json"]);
    assert_eq!(found["tensors"].as_array().unwrap().len(), 2);
}

#[test]
fn shards_that_do_not_match_their_index_are_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let refused = |places: &[(&str, u8)], hints: &[&str]| {
        write_shards(folder, places);
        assert_refused(&prune(folder, &[INDEX, "--out", "out"]), hints);
        assert!(!folder.join("out").join("s1.safetensors").exists());
    };
    refused(&[("a.weight", 1), ("steps", 1), ("b.weight", 3)], &["s3.safetensors", "cannot read"]);
    refused(&[("a.weight", 2), ("steps", 1), ("b.weight", 2)], &["index.json", "a.weight"]);
    refused(&[("a.weight", 1), ("steps", 1), ("b.weight", 2), ("c", 2)], &["index.json", "c"]);
    refused(&[("a.weight", 1), ("b.weight", 2)], &["index.json", "steps"]);
    // The second shard cannot be pruned: the first is not left behind.
    write_shards(folder, &PLACES);
    write(&folder.join("s2.safetensors"), &[("b.weight", &[32, 64])]);
    let mut bytes = std::fs::read(folder.join("s2.safetensors")).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(folder.join("s2.safetensors"), bytes).unwrap();
    assert_refused(&prune(folder, &[INDEX, "--out", "out"]), &["b.weight"]);
    assert_eq!(std::fs::read_dir(folder.join("out")).unwrap().count(), 0);
    std::fs::write(folder.join(INDEX), "{}").unwrap();
    assert_refused(&prune(folder, &[INDEX, "--out", "out"]), &["index.json", "weight_map"]);
}
