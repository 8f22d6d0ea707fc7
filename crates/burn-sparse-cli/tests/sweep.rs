//! Tests of `sweep`: a resumable grid of runs that start from one dense checkpoint per seed.

mod support;

use std::path::Path;
use std::time::SystemTime;

use support::{assert_refused, json, recipe, run};

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
    refused(&["1", "--method", "x:seed=3"], &["seed", "method x cannot set it"]);
    refused(&["1", "--method", "x:task=mnist-mlp"], &["task", "method x cannot set it"]);
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
