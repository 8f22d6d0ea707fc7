//! Exporting and importing checkpoints, and resuming training from them.

mod support;

use std::path::Path;

use safetensors::tensor::{SafeTensors, TensorView};
use serde_json::Value;
use support::{assert_refused, command, json, recipe, run, train};

fn success(folder: &Path, arguments: &[&str]) {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn hashes(report: &Value) -> Vec<Option<&str>> {
    let layers = report["layers"].as_array().unwrap();
    layers.iter().map(|layer| layer["mask_hash"].as_str()).collect()
}

#[test]
fn a_checkpoint_carries_the_recipe_that_made_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let first = train(folder, "first", &["train.prune_epochs=1", "prune.end=\"0.5 epochs\""]);
    std::fs::remove_file(folder.join("recipe.toml")).unwrap();
    let again = ["train", "first/checkpoint.safetensors", "--run-dir", "again", "--json"];
    let again = json(folder, &again);
    assert_eq!(hashes(&again), hashes(&first));
    assert_eq!(again["metric"], first["metric"]);
    let plan = json(folder, &["plan", "first", "--set", "prune.sparsity=0.5", "--json"]);
    assert_eq!(plan["weights"][0]["zeros"], 784 * 256 / 2);

    success(
        folder,
        &["export", "first", "--format", "dense", "--layout", "pytorch", "--out", "p.safetensors"],
    );
    let refused = run(folder, &["train", "p.safetensors"]);
    assert_refused(&refused, &["p.safetensors", "`burn-sparse.version` is missing"]);
}

#[test]
fn weights_come_back_from_pytorchs_layout_and_from_sparse_bitmask() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let trained = train(folder, "run", &["train.prune_epochs=1", "prune.end=\"0.5 epochs\""]);
    success(
        folder,
        &[
            "export",
            "run",
            "--format",
            "dense",
            "--layout",
            "pytorch",
            "--out",
            "dense.safetensors",
        ],
    );
    success(folder, &["export", "run", "--format", "sparse-bitmask", "--out", "bits.safetensors"]);

    // Rename the tensors as another tool might.
    let bytes = std::fs::read(folder.join("dense.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let renamed = tensors
        .tensors()
        .into_iter()
        .map(|(name, view)| (name.replace("fc1.", "net.0.").replace("fc2.", "net.2."), view));
    let renamed: Vec<(String, TensorView<'_>)> = renamed.collect();
    let file = safetensors::serialize(renamed, None).unwrap();
    std::fs::write(folder.join("renamed.safetensors"), file).unwrap();

    let import = |file: &str, more: &[&str]| {
        let arguments = ["import", file, "--task", "glyphs-mlp", "--out", "in.safetensors"];
        success(folder, &[&arguments[..], more].concat());
        json(folder, &["eval", "in.safetensors", "--json"])
    };
    let plain = import("dense.safetensors", &[]);
    assert_eq!(plain["metric"], trained["metric"]);
    let renamed =
        import("renamed.safetensors", &["--rename", "net.0=fc1", "--rename", "net.2=fc2"]);
    assert_eq!(renamed["metric"], trained["metric"]);
    let bits = import("bits.safetensors", &[]);
    let written = json(
        folder,
        &[
            "import",
            "bits.safetensors",
            "--task",
            "glyphs-mlp",
            "--out",
            "in.safetensors",
            "--json",
        ],
    );
    assert_eq!((&written["parameters"], &written["packed"]), (&6.into(), &2.into()));
    let written =
        json(folder, &["export", "run", "--format", "packed", "--out", "p.safetensors", "--json"]);
    let bytes = std::fs::metadata(folder.join("p.safetensors")).unwrap().len();
    assert_eq!((&written["tensors"], &written["bytes"]), (&6.into(), &bytes.into()));
    assert_eq!(bits["metric"], trained["metric"]);
    // The masks are the same, now as unstructured ones, and sparse kernels run them.
    assert_eq!(hashes(&bits), hashes(&trained));
    assert_eq!(bits["layers"][0]["pattern"], "unstructured");
    assert!(bits["layers"][0]["kernel"].as_str().unwrap().starts_with("flex-"));

    // All mismatches are listed.
    let arguments = ["import", "renamed.safetensors", "--task", "glyphs-mlp", "--out", "x"];
    let hints = [
        "does not fit the model",
        "the file lacks fc1.weight",
        "the file lacks fc2.bias",
        "the model lacks net.0.weight",
    ];
    assert_refused(&run(folder, &arguments), &hints);
    let unused = [&arguments[..], &["--rename", "net.7=fc1"]].concat();
    assert_refused(&run(folder, &unused), &["rename `net.7=fc1`", "no tensor under net.7"]);
    let clash = [&arguments[..], &["--rename", "net.0=fc1", "--rename", "net.2=fc1"]].concat();
    assert_refused(&run(folder, &clash), &["two tensors have this name once renamed"]);
    let other = ["import", "dense.safetensors", "--task", "mnist-mlp", "--out", "x"];
    let hint = "fc1.weight is F32 [256, 784] in the file, the model needs floats [512, 784]";
    assert_refused(&run(folder, &other), &[hint]);
    let nameless = ["import", "bits.safetensors", "--task", "glyphs", "--out", "x"];
    assert_refused(&run(folder, &nameless), &["glyphs", "glyphs-mlp"]);
    let ours = ["import", "run/checkpoint.safetensors", "--task", "glyphs-mlp", "--out", "x"];
    assert_refused(&run(folder, &ours), &["is a burn-sparse checkpoint already"]);
    let misspelt = [&arguments[..], &["--rename", "fc1"]].concat();
    assert_eq!(run(folder, &misspelt).status.code(), Some(2));
    assert!(!folder.join("x").exists());
}

#[test]
fn two_byte_values_halve_the_file_and_hardly_move_the_metric() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let trained = train(folder, "run", &["train.prune_epochs=1", "prune.end=\"0.5 epochs\""]);
    let size = |path: &str| std::fs::metadata(folder.join(path)).unwrap().len() as f64;
    let whole = size("run/checkpoint.safetensors");
    for dtype in ["f16", "bf16"] {
        let out = format!("{dtype}.safetensors");
        success(folder, &["export", "run", "--format", "packed", "--values", dtype, "--out", &out]);
        assert!(size(&out) < 0.56 * whole, "{dtype}: {} of {whole}", size(&out));
        let found = json(folder, &["eval", &out, "--json"]);
        assert_eq!(hashes(&found), hashes(&trained));
        let value = |report: &Value| report["metric"]["value"].as_f64().unwrap();
        assert!((value(&found) - value(&trained)).abs() < 0.02, "{dtype}");
        // Exporting values that are already rounded does not change them.
        success(folder, &["export", &out, "--format", "packed", "--out", "again.safetensors"]);
        let [a, b] = [&out, "again.safetensors"].map(|p| std::fs::read(folder.join(p)).unwrap());
        assert!(a == b, "{dtype}");
    }
}

#[test]
fn values_in_8_bits_run_kernels_of_8_bits_and_hardly_move_the_metric() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let trained = train(folder, "run", &["train.prune_epochs=1", "prune.end=\"0.5 epochs\""]);
    let size = |path: &str| std::fs::metadata(folder.join(path)).unwrap().len() as f64;
    let export =
        ["export", "run", "--format", "packed", "--values", "w8a8", "--out", "int8.safetensors"];
    success(folder, &export);
    assert!(size("int8.safetensors") < 0.35 * size("run/checkpoint.safetensors"));
    let found = json(folder, &["eval", "int8.safetensors", "--json"]);
    assert_eq!(hashes(&found), hashes(&trained));
    let value = |report: &Value| report["metric"]["value"].as_f64().unwrap();
    assert!((value(&found) - value(&trained)).abs() < 0.02);
    // What pruning cost, apart from what 8 bits cost.
    assert_eq!(found["in_f32"]["pruned"], trained["metric"]);
    assert_eq!(found["in_f32"]["dense"], trained["dense_metric"]);
    assert!(json(folder, &["eval", "run", "--json"]).get("in_f32").is_none());
    // Every matrix runs in 8 bits, the head that was not pruned too.
    let layers = found["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 3);
    for layer in layers {
        let kernel = layer["kernel"].as_str().unwrap();
        assert!(kernel.contains("-int8-"), "{kernel}");
    }
    let again =
        ["export", "int8.safetensors", "--format", "packed", "--values", "w8a8", "--out", "again"];
    success(folder, &again);
    let bytes = |path: &str| std::fs::read(folder.join(path)).unwrap();
    assert!(bytes("again") == bytes("int8.safetensors"));
    // The same as asking for it when evaluating.
    let at_once = json(folder, &["eval", "run", "--values", "w8a8", "--json"]);
    assert_eq!(at_once["metric"], found["metric"]);
    let inspected = json(folder, &["inspect", "int8.safetensors", "--json"]);
    let types = inspected["tensors"].as_array().unwrap().iter().map(|tensor| &tensor["values"]);
    assert_eq!(types.filter(|values| **values == "I8").count(), 3);
    for tensor in inspected["tensors"].as_array().unwrap() {
        let bits = tensor["bits"].as_f64().unwrap();
        match (tensor["values"].as_str().unwrap(), tensor["pattern"].as_str()) {
            // A byte for every weight and a scale for every row.
            ("I8", None) => assert!(bits > 8.0 && bits < 9.0, "{tensor}"),
            ("I8", Some(_)) => assert!(bits > 1.0 && bits < 6.0, "{tensor}"),
            _ => assert_eq!(bits, 32.0, "{tensor}"),
        }
    }
    for format in ["dense", "sparse-bitmask"] {
        let export = ["export", "run", "--format", format, "--values", "w8a8", "--out", "x"];
        let refused = run(folder, &export);
        assert_eq!(refused.status.code(), Some(2));
        let message = String::from_utf8_lossy(&refused.stderr);
        assert!(message.contains("--values w8a8 needs --format packed"), "{message}");
    }
    assert!(!folder.join("x").exists());
}

#[test]
fn values_in_4_bits_run_kernels_of_4_bits_and_hardly_move_the_metric() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let trained = train(folder, "run", &["train.prune_epochs=1", "prune.end=\"0.5 epochs\""]);
    let export =
        ["export", "run", "--format", "packed", "--values", "w4a8", "--out", "int4.safetensors"];
    success(folder, &export);
    let found = json(folder, &["eval", "int4.safetensors", "--json"]);
    assert_eq!(hashes(&found), hashes(&trained));
    let value = |report: &Value| report["metric"]["value"].as_f64().unwrap();
    assert!((value(&found) - value(&trained)).abs() < 0.05);
    assert_eq!(found["in_f32"]["pruned"], trained["metric"]);
    for layer in found["layers"].as_array().unwrap() {
        let kernel = layer["kernel"].as_str().unwrap();
        assert!(kernel.contains("-int4-"), "{kernel}");
    }
    let inspected = json(folder, &["inspect", "int4.safetensors", "--json"]);
    for tensor in inspected["tensors"].as_array().unwrap() {
        let bits = tensor["bits"].as_f64().unwrap();
        match (tensor["values"].as_str().unwrap(), tensor["pattern"].as_str()) {
            // Half a byte for every weight, and a scale of two bytes for 64 or what there is of them.
            ("I4", None) => assert!(bits > 4.0 && bits < 5.0, "{tensor}"),
            ("I4", Some(_)) => assert!(bits > 0.5 && bits < 4.0, "{tensor}"),
            _ => assert_eq!(bits, 32.0, "{tensor}"),
        }
    }
    let refused = run(folder, &["bench", "run", "--training", "--values", "w4a8"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn values_that_a_narrower_type_cannot_hold_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    train(folder, "run", &["train.prune_epochs=1", "prune.end=\"0.5 epochs\""]);
    success(folder, &["export", "run", "--format", "dense", "--out", "dense.safetensors"]);
    let mut bytes = std::fs::read(folder.join("dense.safetensors")).unwrap();
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&1e5_f32.to_le_bytes());
    std::fs::write(folder.join("large.safetensors"), bytes).unwrap();
    let export = ["export", "large.safetensors", "--format", "dense", "--out", "x", "--values"];
    let refused = run(folder, &[&export[..], &["f16"]].concat());
    assert_refused(&refused, &["parameter head.weight: 1e5 is more than F16 holds"]);
    success(folder, &[&export[..], &["bf16"]].concat());
}

/// Recipe that fine-tunes with fixed masks.
const KEEP: &str =
    "version = 1\ntask = \"glyphs-mlp\"\n[train]\nkeep_zeros = true\nprune_epochs = 2\n";

#[test]
fn fine_tuning_goes_on_from_a_packed_checkpoint_and_keeps_its_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // HiNM ramps up with straight-through gradients only.
    let short = [
        "train.dense_epochs=1",
        "train.prune_epochs=1",
        "prune.end=\"0.5 epochs\"",
        "prune.regrow=straight-through",
    ];
    std::fs::write(folder.join("keep.toml"), KEEP).unwrap();
    for pattern in [
        "{ kind = \"shfl-bw\", vector = 32 }",
        "{ kind = \"balanced\", block = 32 }",
        "{ kind = \"hinm\", vector = 32, keep = 2, of = 4 }",
    ] {
        let name = pattern.split('"').nth(1).unwrap();
        let set = format!("prune.pattern={pattern}");
        let first = train(folder, name, &[&short[..], &[&set]].concat());
        let tuned = format!("{name}-tuned");
        let arguments = ["train", "keep.toml", "--from", name, "--run-dir", &tuned, "--json"];
        let second = json(folder, &arguments);
        assert_eq!(hashes(&second), hashes(&first), "{name}");
        assert_eq!(second["pattern"], first["pattern"]);
        let value = |report: &Value| report["metric"]["value"].as_f64().unwrap();
        assert!(value(&second) > value(&first), "{name}: {} {}", value(&second), value(&first));
        // The checkpoint is packed in the same layout.
        let inspected = json(folder, &["inspect", &tuned, "--json"]);
        let kernels = &second["layers"];
        assert_eq!(kernels[0]["kernel"], first["layers"][0]["kernel"]);
        assert_eq!(inspected["sparsity"], second["sparsity"]);
    }

    // A full run, including its dense phase, can also start from a packed checkpoint.
    let arguments = ["train", "recipe.toml", "--from", "balanced", "--run-dir", "on", "--json"];
    assert!(json(folder, &arguments)["metric"]["value"].as_f64().unwrap() > 0.5);

    // Zeros that cannot be kept are reported before anything is written.
    let train_keep = ["train", "keep.toml", "--run-dir", "no"];
    assert_refused(&run(folder, &train_keep), &["`train.keep_zeros`", "--from FILE"]);
    success(folder, &["export", "balanced", "--format", "dense", "--out", "dense.safetensors"]);
    let dense = [&train_keep[..], &["--from", "dense.safetensors"]].concat();
    assert_refused(&run(folder, &dense), &["holds no packed weight"]);
    recipe(folder, "prune_epochs = 2", "prune_epochs = 2\nkeep_zeros = true");
    let both = ["train", "recipe.toml", "--from", "balanced", "--run-dir", "no"];
    assert_refused(&run(folder, &both), &["`train.keep_zeros`", "[[prune]]"]);
    let other = ["train", "keep.toml", "--set", "task=\"mnist-mlp\"", "--from", "balanced"];
    let other = [&other[..], &["--run-dir", "no"]].concat();
    assert_refused(&run(folder, &other), &["does not fit the model"]);
    assert!(!folder.join("no").exists());
}

#[cfg(unix)]
#[test]
fn an_interrupted_fine_tuning_goes_on_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    train(folder, "run", &["train.prune_epochs=1", "prune.end=\"0.5 epochs\""]);
    std::fs::write(folder.join("keep.toml"), KEEP).unwrap();
    json(folder, &["train", "keep.toml", "--from", "run", "--run-dir", "whole", "--json"]);
    let arguments = ["train", "keep.toml", "--run-dir", "cut"];
    let mut child = command(folder).args(arguments).args(["--from", "run"]).spawn().unwrap();
    // Kill the run as soon as its first epoch is saved.
    let saved = || {
        let state = std::fs::read_to_string(folder.join("cut/state.json")).unwrap_or_default();
        state.contains("\"epoch\": 1")
    };
    while !saved() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Resuming must not need the checkpoint that the run started from.
    std::fs::remove_dir_all(folder.join("run")).unwrap();
    success(folder, &[&arguments[..], &["--resume"]].concat());
    let weights = |run_dir: &str| {
        let out = format!("{run_dir}.safetensors");
        success(folder, &["export", run_dir, "--format", "sparse-bitmask", "--out", &out]);
        std::fs::read(folder.join(out)).unwrap()
    };
    assert!(weights("whole") == weights("cut"));
}
