//! Tests of `sweep`: a resumable grid of runs that start from one dense checkpoint per seed.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::SystemTime;

use support::{assert_refused, command, json, recipe, run};

const SWEEP: [&str; 10] = [
    "sweep",
    "recipe.toml",
    "--patterns",
    "unstructured,shfl-bw(vector=32)",
    "--sparsities",
    "0.75",
    "--run-dir",
    "grid",
    "--json",
    "--seeds",
];

fn sweep(folder: &Path, more: &[&str]) -> serde_json::Value {
    json(folder, &[&SWEEP[..], more].concat())
}

fn written(folder: &Path, run: &str) -> SystemTime {
    let file = folder.join("grid").join(run).join("checkpoint.safetensors");
    file.metadata().and_then(|data| data.modified()).unwrap()
}

#[test]
fn a_grid_is_trained_once_and_a_larger_one_adds_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, "", "");
    let first = sweep(folder, &["1"]);
    let rows = first["rows"].as_array().unwrap();
    let patterns: Vec<&str> = rows.iter().map(|row| row["pattern"].as_str().unwrap()).collect();
    assert_eq!(patterns, ["unstructured", "shfl-bw(vector=32)"]);
    for row in rows {
        assert!((row["sparsity"].as_f64().unwrap() - 0.75).abs() < 0.01, "{row}");
        assert!(row["metric"]["mean"].as_f64().unwrap() > 0.5, "{row}");
    }
    let dense = written(folder, "dense/seed-0");
    let pruned = written(folder, "unstructured-0.75/seed-0");

    let methods = ["2", "--method", "ramp:", "--method", "one-shot:prune.end=0 epochs"];
    let second = sweep(folder, &methods);
    assert_eq!(second["rows"].as_array().unwrap().len(), 4);
    assert_eq!(second["dense"]["values"].as_array().unwrap().len(), 2);
    assert_eq!(second["dense"]["values"][0], first["dense"]["values"][0]);
    assert_eq!(written(folder, "dense/seed-0"), dense);
    assert_eq!(written(folder, "unstructured-0.75/seed-0"), pruned);
    // A method without keys is the unchanged recipe in a separate folder: the results are identical.
    let ramp = &second["rows"][0]["metric"]["values"][0];
    assert_eq!(ramp, &first["rows"][0]["metric"]["values"][0]);
    assert_eq!(sweep(folder, &methods), second);
}

const SHARDED: [&str; 8] = [
    "sweep",
    "recipe.toml",
    "--json",
    "--patterns",
    "unstructured,shfl-bw(vector=32),balanced(block=32)",
    "--sparsities",
    "0.5,0.75",
    "--seeds=2",
];

/// Returns the tensors of every checkpoint of a sweep, by path.
fn tensors(sweep: &Path) -> BTreeMap<String, Vec<(String, Vec<u8>)>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![sweep.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with("checkpoint.safetensors") {
                let bytes = std::fs::read(&path).unwrap();
                let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
                let tensors = file.iter().map(|(name, view)| (name.into(), view.data().to_vec()));
                let mut tensors: Vec<(String, Vec<u8>)> = tensors.collect();
                tensors.sort();
                found.insert(path.strip_prefix(sweep).unwrap().display().to_string(), tensors);
            }
        }
    }
    found
}

/// Copies a folder into another one.
fn merge(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if path.is_dir() {
            merge(&path, &to.join(name));
        } else {
            std::fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

#[test]
fn three_shards_of_twelve_runs_train_what_one_process_trains_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, "prune_epochs = 2", "prune_epochs = 1");
    let sharded = |run_dir: &str, shard: &str| -> Vec<String> {
        let more = ["--run-dir", run_dir, "--shard", shard];
        SHARDED.iter().chain(&more).map(|argument| argument.to_string()).collect()
    };
    let whole = json(folder, &[&SHARDED[..], &["--run-dir", "whole"]].concat());
    assert_eq!(whole["rows"].as_array().unwrap().len(), 6);

    // At once, in one folder; the dense runs are shared too.
    let shards: Vec<_> = ["1/3", "2/3", "3/3"]
        .map(|shard| {
            let mut command = command(folder);
            command.args(sharded("shared", shard)).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .into_iter()
        .map(|child| child.wait_with_output().unwrap())
        .collect();
    for output in &shards {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
    }
    // Whoever came last has collated.
    let collated = std::fs::read(folder.join("shared/sweep.json")).unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&collated).unwrap(), whole);
    let expected = tensors(&folder.join("whole"));
    assert_eq!(expected.len(), 12 + 2);
    assert!(tensors(&folder.join("shared")) == expected);

    // One after the other, in folders of their own.
    for (index, missing) in [(1, 8), (2, 8), (3, 8)] {
        let shard = format!("{index}/3");
        let arguments = sharded(&format!("own-{index}"), &shard);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let found = json(folder, &arguments);
        assert_eq!(found["shard"], shard);
        assert_eq!(found["missing"].as_array().unwrap().len(), missing, "{found}");
        merge(&folder.join(format!("own-{index}")), &folder.join("merged"));
    }
    let begun = SystemTime::now();
    assert_eq!(json(folder, &[&SHARDED[..], &["--run-dir", "merged"]].concat()), whole);
    assert!(tensors(&folder.join("merged")) == expected);
    let checkpoint = folder.join("merged/dense/seed-0/checkpoint.safetensors");
    assert!(checkpoint.metadata().and_then(|data| data.modified()).unwrap() < begun);
}

#[test]
fn what_is_no_shard_is_bad_usage() {
    let folder = tempfile::tempdir().unwrap();
    for (shard, more) in [("0/2", &[][..]), ("3/2", &[]), ("x", &[]), ("1/2", &["--sensitivity"])] {
        let arguments = [&["sweep", "--shard", shard], more].concat();
        assert_eq!(run(folder.path(), &arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_cell_that_cannot_be_is_refused_before_anything_is_trained() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, "", "");
    let refused = |more: &[&str], hints: &[&str]| {
        let mut arguments = [&SWEEP[..], more].concat();
        if more.contains(&"--patterns") {
            arguments.drain(2..6);
        }
        assert_refused(&run(folder, &arguments), hints);
        assert!(!folder.join("grid").exists());
    };
    refused(&["1", "--method", "x:prune.sparsity=2"], &["prune[0].sparsity"]);
    refused(&["1", "--method", "x:prune.nonsense=2"], &["nonsense"]);
    refused(&["1", "--patterns", "balanced(block=32)", "--sparsities", "0.99"], &["keeps 0 of 32"]);
    refused(&["1", "--set", "train.keep_zeros=true"], &["keep_zeros"]);
    let pattern = ["1", "--method", "x:prune.pattern=unstructured"];
    refused(&pattern, &["prune.pattern", "method x cannot set it"]);
    let sparsity = ["1", "--method", "x:prune.sparsity=0.25"];
    refused(&sparsity, &["prune.sparsity", "method x cannot set it"]);
    refused(&["1", "--method", "x:seed=3"], &["seed", "method x cannot set it"]);
    refused(&["1", "--method", "x:task=mnist-mlp"], &["task", "method x cannot set it"]);
    let frozen = ["1", "--method", "plain:", "--method", "x:train.freeze=[\"nope.*\"]"];
    refused(&frozen, &["train.freeze", "`nope.*` matches no parameter"]);
    let distilled = "x:train.distill={ weight = 0.5, layers = 1 }";
    refused(&["1", "--method", "plain:", "--method", distilled], &["train.distill.layers"]);
    let bad = run(folder, &[&SWEEP[..], &["1", "--method", "../x:"]].concat());
    assert_eq!(bad.status.code(), Some(2));
}

#[test]
fn another_recipe_in_the_same_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, "", "");
    sweep(folder, &["1"]);
    let other = [&SWEEP[..], &["1", "--set", "train.batch_size=64"]].concat();
    assert_refused(&run(folder, &other), &["another recipe", "batch_size"]);
}

#[test]
fn sensitivity_prunes_each_weight_alone_and_writes_a_recipe_of_what_it_bears() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Keys that need a gradient, many steps per epoch, or several weights apply to the recipe, not to a trial.
    let keys = "every = \"0.25 epochs\"\nscore = \"taylor\"\nregrow = { partitions = 2 }";
    recipe(folder, "every = \"20 steps\"", &format!("{keys}\nstart = \"10 steps\""));
    let sweep = ["sweep", "recipe.toml", "--sensitivity", "--run-dir", "grid", "--json"];
    let grid = ["--patterns", "unstructured,balanced(block=16)", "--sparsities", "0.25,0.9375"];
    let common = [&sweep[..], &grid].concat();
    let found =
        json(folder, &[&common[..], &["--write", "per-layer.toml", "--allow", "0.05"]].concat());
    let trials = found["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2 * 2 * 2, "{trials:?}");
    let dense = found["dense"]["value"].as_f64().unwrap();
    for trial in trials {
        let (value, loss) = (trial["value"].as_f64().unwrap(), trial["loss"].as_f64().unwrap());
        assert!((dense - value - loss).abs() < 1e-12, "{trial}");
        assert!(
            (trial["sparsity"].as_f64().unwrap() - trial["target"].as_f64().unwrap()).abs() < 1e-3
        );
        // Dropping the smallest quarter of one layer's weights hardly changes the metric; the model is trained briefly.
        assert!(trial["target"] != 0.25 || loss.abs() < 0.05, "{trial}");
    }
    assert!(folder.join("grid/sensitivity.json").is_file());
    let plan = json(folder, &["plan", "per-layer.toml", "--json"]);
    assert_eq!(plan["weights"].as_array().unwrap().len(), 2, "{plan}");

    // The dense model of the sweep is reused, and an `--allow` that no trial meets is reported.
    let begun = written(folder, "dense/seed-0");
    let refused = [&common[..], &["--write", "none.toml", "--allow=-1"]].concat();
    assert_refused(&run(folder, &refused), &["raise --allow"]);
    assert!(!folder.join("none.toml").exists());
    assert_eq!(written(folder, "dense/seed-0"), begun);
    let alone =
        run(folder, &["sweep", "recipe.toml", "--patterns", "unstructured", "--write", "x"]);
    assert_eq!(alone.status.code(), Some(2));
}

#[test]
fn a_budget_chooses_a_sparsity_for_each_weight_and_measures_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, "", "");
    let sweep = ["sweep", "recipe.toml", "--run-dir", "grid", "--json"];
    let grid = ["--patterns", "balanced(block=16)", "--sparsities", "0.5,0.75"];
    let common = [&sweep[..], &grid, &["--write", "fast.toml"]].concat();
    let refused = run(folder, &[&common[..], &["--budget", "1us", "--batch", "4"]].concat());
    assert_refused(&refused, &["the budget is 1 us", "at its fastest", "allow more time"]);
    assert!(!folder.join("fast.toml").exists());
    let found = std::fs::read(folder.join("grid/budget.json")).unwrap();
    let found: serde_json::Value = serde_json::from_slice(&found).unwrap();
    assert_eq!(found["batch"], 4);
    for candidate in found["candidates"].as_array().unwrap() {
        let (time, error) = (&candidate["time"], candidate["error"].as_f64().unwrap());
        assert!(time["dense_us"].as_f64().unwrap() > 0.0, "{candidate}");
        assert!(time["sparse_us"].as_f64().unwrap() > 0.0, "{candidate}");
        assert!(error > 0.0 && error < 2.0, "{candidate}");
    }
    // The dense model is slower than that anyway.
    let refused = run(folder, &[&common[..], &["--budget", "60s"]].concat());
    assert_refused(&refused, &["nothing needs to be pruned"]);
    for wrong in [
        &["--budget", "4"][..],
        &["--speedup", "0.5"],
        &["--speedup", "2", "--budget", "1ms"],
        &["--speedup", "2", "--allow", "0.1"],
        &["--speedup", "2", "--sensitivity"],
        &["--speedup", "2", "--shard", "1/2"],
        &["--sensitivity", "--batch", "4"],
        &["--batch", "4"],
    ] {
        let bad = run(folder, &[&common[..], wrong].concat());
        assert_eq!(bad.status.code(), Some(2), "{wrong:?}");
    }
}
