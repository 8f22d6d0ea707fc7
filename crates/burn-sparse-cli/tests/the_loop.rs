//! The whole workflow from recipe to benchmark, with every step in a new process, as a user runs it.

mod support;

use std::path::Path;
use std::process::Stdio;

use burn_sparse_tests::pretrained::LLAMA;
use burn_sparse_tests::pretrained_run::{LANGUAGE, Place};
use serde_json::Value;
use support::{assert_refused, command, json, recipe, run, train};

fn hashes(report: &Value) -> Vec<&str> {
    let layers = report["layers"].as_array().unwrap();
    layers.iter().filter_map(|layer| layer["mask_hash"].as_str()).collect()
}

/// Returns a run's weights as the bytes of a plain safetensors file.
fn weights(folder: &Path, run_dir: &str) -> Vec<u8> {
    let out = format!("{run_dir}.safetensors");
    let arguments = ["export", run_dir, "--format", "dense", "--layout", "pytorch", "--out", &out];
    assert!(run(folder, &arguments).status.success());
    std::fs::read(folder.join(out)).unwrap()
}

#[test]
fn a_run_trains_evaluates_exports_and_benchmarks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let trained = train(folder, "run", &[]);
    assert_eq!(trained["task"], "glyphs-mlp");
    assert_eq!(trained["sparsity"], 0.75);
    assert_eq!(trained["pattern"], "shfl-bw(vector=32)");
    assert!(trained["dense_metric"]["value"].as_f64().unwrap() > 0.3);
    assert!(trained["metric"]["value"].as_f64().unwrap() > 0.5);

    // Evaluating the packed checkpoint in a new process gives the same metric, masks and kernels.
    let evaluated = json(folder, &["eval", "run", "--json"]);
    assert_eq!(evaluated["metric"], trained["metric"]);
    assert_eq!(evaluated["layers"], trained["layers"]);
    let kernels: Vec<&str> = evaluated["layers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|layer| layer["kernel"].as_str().unwrap())
        .collect();
    assert!(kernels[0].starts_with("flex-grouped-"), "{kernels:?}");
    assert!(kernels[1].starts_with("flex-grouped-"), "{kernels:?}");
    assert_eq!(kernels[2], "dense, because it is not pruned");

    // The packed file is small, and the dense exports hold the same weights.
    let inspected = json(folder, &["inspect", "run", "--json"]);
    let share = inspected["bytes"].as_f64().unwrap() / inspected["dense_bytes"].as_f64().unwrap();
    assert!(share < 0.35, "{share}");
    for layout in ["burn", "pytorch"] {
        let out = format!("{layout}.safetensors");
        let arguments = ["export", "run", "--format", "dense", "--layout", layout, "--out", &out];
        assert!(run(folder, &arguments).status.success());
    }
    let burn = json(folder, &["inspect", "burn.safetensors", "--json"]);
    assert_eq!(burn["tensors"].as_array().unwrap().len(), 6);
    let again = json(folder, &["eval", "burn.safetensors", "--json"]);
    assert_eq!(again["metric"], trained["metric"]);

    let timed = json(folder, &["bench", "run", "--batch", "1,64", "--json"]);
    let rows = timed["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert!(
            row["dense_us"].as_f64().unwrap() > 0.0 && row["sparse_us"].as_f64().unwrap() > 0.0
        );
        assert!(row["kernel"].as_str().unwrap().starts_with("flex-grouped-"));
    }
    let arguments = ["bench", "--shape", "64x96", "--pattern", "balanced,n-of-m(keep=1,of=4)"];
    let timed = json(folder, &[&arguments[..], &["--batch", "3", "--json"]].concat());
    assert_eq!(timed["rows"].as_array().unwrap().len(), 2);
}

#[test]
fn the_same_seed_gives_the_same_masks_and_metric_and_another_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let a = train(folder.path(), "a", &[]);
    let b = train(folder.path(), "b", &[]);
    let c = train(folder.path(), "c", &["seed=1"]);
    assert_eq!((hashes(&a), &a["metric"]), (hashes(&b), &b["metric"]));
    assert_ne!(hashes(&a), hashes(&c));
    assert_eq!(weights(folder.path(), "a"), weights(folder.path(), "b"));
}

#[test]
fn devices_that_share_a_batch_learn_what_one_would() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let one = train(folder, "one", &[]);
    // There is only one CPU, but listing it twice still splits the batch, sums the gradients, and copies the
    // model.
    let shared = |run_dir: &str, more: &[&str]| {
        let arguments = ["train", "recipe.toml", "--json", "--devices", "flex,flex", "--run-dir"];
        json(folder, &[&arguments[..], &[run_dir], more].concat())
    };
    let two = shared("two", &[]);
    assert_eq!(two["device"], "flex,flex");
    let accuracy = |report: &Value| report["metric"]["value"].as_f64().unwrap();
    assert!((accuracy(&one) - accuracy(&two)).abs() < 0.05, "{} {}", one["metric"], two["metric"]);
    assert_eq!(one["sparsity"], two["sparsity"]);
    assert_eq!(hashes(&two), hashes(&shared("again", &[])));
    shared("distilled", &["--set", "train.distill={ weight = 0.5 }"]);
    // One batch split into three parts, the last one smaller, with mask updates from the summed gradient.
    let rigl = "prune.regrow={ fraction = 0.3, score = \"gradient\" }";
    let arguments = ["train", "recipe.toml", "--json", "--devices", "flex,flex,flex", "--run-dir"];
    json(folder, &[&arguments[..], &["three", "--set", rigl]].concat());
    let arguments = ["train", "recipe.toml", "--devices", "flex,cuda:x"];
    assert_refused(&run(folder, &arguments), &["--device cuda:x", "no number of a device"]);
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_resumes_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let whole = train(folder.path(), "whole", &[]);
    recipe(folder.path(), "", "");
    let arguments = ["train", "recipe.toml", "--run-dir", "cut", "--json"];
    for (count, point) in ["dense:1:3", "dense:1:20", "prune:1:11", "prune:2:1"].iter().enumerate()
    {
        let resume: &[&str] = if count > 0 { &["--resume"] } else { &[] };
        let output = command(folder.path())
            .args(arguments)
            .args(resume)
            .env("BURN_SPARSE_FAILPOINT", format!("interrupt@{point}"))
            .output()
            .unwrap();
        assert_refused(&output, &["interrupted; go on with: burn-sparse train"]);
    }
    let resumed = json(folder.path(), &[&arguments[..], &["--resume"]].concat());
    assert_eq!(resumed["layers"], whole["layers"]);
    assert_eq!(resumed["metric"], whole["metric"]);
    assert_eq!(resumed["dense_metric"], whole["dense_metric"]);
    assert_eq!(weights(folder.path(), "whole"), weights(folder.path(), "cut"));
}

#[test]
fn the_plan_is_printed_before_anything_trains() {
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), "", "");
    let output = run(folder.path(), &["plan", "recipe.toml"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let (plan, cost) = text.rsplit_once("one mask update costs").unwrap();
    assert!(cost.contains(" s here"));
    assert_eq!(plan.trim_end(), include_str!("golden/plan.txt").trim_end());
    let json =
        json(folder.path(), &["plan", "recipe.toml", "--set", "prune.sparsity=0.9", "--json"]);
    assert_eq!(json["weights"][0]["zeros"], 256 * (784 - 78));
    assert!(json["mask_update_seconds"].as_f64().unwrap() > 0.0);
    assert!(!folder.path().join("runs").exists());
}

#[test]
fn the_plan_tells_when_training_is_packed() {
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), "", "");
    let plan = |set: &str| {
        let sets = ["--set", "train.compute=packed", "--set", set];
        let output = run(folder.path(), &[&["plan", "recipe.toml"][..], &sets].concat());
        String::from_utf8(output.stdout).unwrap()
    };
    let never = plan("prune.regrow=never");
    assert!(
        never.contains("from step 157 on, where that is faster, 2 of 2 weights along"),
        "{never}"
    );
    assert!(plan("prune.score=taylor").contains("from step 157 on, where that is faster\n"));
}

#[test]
fn scores_that_need_a_gradient_are_planned_without_one() {
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), "", "");
    let taylor = ["plan", "recipe.toml", "--set", "prune.score=taylor", "--json"];
    assert!(json(folder.path(), &taylor)["mask_update_seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_run_ends_well_though_nobody_reads_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), "", "");
    let mut process = command(folder.path())
        .args(["train", "recipe.toml", "--run-dir", "run", "--json"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(process.stderr.take());
    assert!(process.wait().unwrap().success());
    assert!(folder.path().join("run/checkpoint.safetensors").is_file());
}

#[test]
fn a_benchmark_runs_values_of_the_type_that_the_checkpoint_has() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    train(folder, "run", &[]);
    let export = ["export", "run", "--format", "packed", "--values", "bf16", "--out", "half"];
    assert!(run(folder, &export).status.success());
    for (file, values) in [("run", "F32"), ("half", "BF16")] {
        let bench = json(folder, &["bench", file, "--batch", "1", "--json"]);
        assert_eq!(bench["rows"][0]["values"], values, "{bench}");
    }
}

#[test]
fn every_recipe_of_the_project_can_be_planned() {
    let recipes = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes");
    let mut seen = 0;
    for entry in std::fs::read_dir(recipes).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let output = run(Path::new("."), &["plan", path.to_str().unwrap()]);
        if std::fs::read_to_string(&path).unwrap().contains("\nmodel = ")
            && !output.status.success()
        {
            // The pretrained model is not in this machine's cache.
            assert_refused(&output, &["hf download"]);
            continue;
        }
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        seen += 1;
    }
    assert!(seen >= 4);
}

#[test]
fn a_pretrained_run_is_evaluated_without_its_training_text_and_beside_its_own_metrics_only() {
    let place = Place::new(LLAMA);
    let recipe = place.recipe(LANGUAGE, &["train.prune_epochs=1"]);
    place.train(&recipe, "run", usize::MAX).unwrap();
    let folder = place.data.path();
    std::fs::remove_file(folder.join("train.txt")).unwrap();
    let eval = |more: &[&str]| {
        json(folder, &[&["eval", "run", "--data-dir", ".", "--json"], more].concat())
    };
    let own = eval(&[]);
    let windows = ["--text", "test.txt", "--windows", "3", "--context", "8"];
    let same = eval(&windows);
    assert_eq!(own["metric"], same["metric"]);
    assert_eq!(own["dense_metric"], same["dense_metric"]);
    assert!(own["dense_metric"]["value"].is_f64());
    let other = eval(&[&windows[..3], &["2"], &windows[4..]].concat());
    assert!(other["dense_metric"].is_null(), "{other}");
}
