//! A run that is killed or runs out of disk space resumes from its last complete state, bitwise identical.
#![cfg(unix)]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use support::{assert_refused, command, json, recipe, run, train};

/// Pruning methods, as `--set` pairs.
const METHODS: [(&str, &[&str]); 10] = [
    ("gradual", &[]),
    ("one-shot", &["prune.end=0 epochs"]),
    ("straight-through", &["prune.regrow=straight-through"]),
    ("sr-ste", &["prune.regrow=straight-through", "prune.decay=2e-4"]),
    ("rigl", &["prune.regrow={ fraction = 0.3, score = \"gradient\" }"]),
    ("set", &["prune.regrow={ fraction = 0.3, score = \"random\" }"]),
    ("gap", &["prune.regrow={ partitions = 2, rounds = 1 }"]),
    ("packed", &["train.compute=packed", "prune.end=1 epochs"]),
    ("packed along the ramp", &["train.compute=packed"]),
    ("distilled", &["train.distill={ weight = 0.5 }", "train.keep=best", "train.patience=1"]),
];

fn weights(folder: &Path, run_dir: &str) -> Vec<u8> {
    let out = format!("{run_dir}.safetensors");
    let arguments = ["export", run_dir, "--format", "dense", "--out", &out];
    assert!(run(folder, &arguments).status.success());
    std::fs::read(folder.join(out)).unwrap()
}

fn arguments<'a>(sets: &[&'a str], run_dir: &'a str) -> Vec<&'a str> {
    let mut arguments = vec!["train", "recipe.toml", "--run-dir", run_dir, "--json"];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    arguments
}

#[test]
fn every_method_resumes_after_an_abort_to_the_same_bits() {
    for (number, (method, sets)) in METHODS.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let whole = train(folder, "whole", sets);
        let arguments = arguments(sets, "cut");
        // Another step of each phase for every method; the last point is right after a mask update.
        let points = [
            format!("dense:1:{}", 1 + 5 * number),
            format!("prune:1:{}", 3 + 4 * number),
            "prune:2:1".to_string(),
        ];
        for (killed, point) in points.iter().enumerate() {
            let resume: &[&str] = if killed > 0 { &["--resume"] } else { &[] };
            let status = command(folder)
                .args(&arguments)
                .args(resume)
                .env("BURN_SPARSE_FAILPOINT", format!("abort@{point}"))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap();
            assert_eq!(status.code(), None, "{method}: not killed at {point}");
        }
        let resumed = json(folder, &[&arguments[..], &["--resume"]].concat());
        assert_eq!(resumed["metric"], whole["metric"], "{method}");
        assert_eq!(resumed["layers"], whole["layers"], "{method}");
        assert!(weights(folder, "whole") == weights(folder, "cut"), "{method}");
    }
}

#[test]
fn an_epoch_that_is_resumed_reports_what_an_uninterrupted_one_reports() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Forty steps an epoch; the ramp ends with the first.
    let sets = ["train.compute=packed", "train.batch_size=500"];
    train(folder, "whole", &sets);
    let arguments = arguments(&sets, "cut");
    let resume = [&arguments[..], &["--resume"]].concat();
    // In the first epoch after masks have been updated, in the second after its last step.
    for (arguments, at) in [(&arguments, "prune:1:30"), (&resume, "prune:2:40")] {
        let point = format!("interrupt@{at}");
        let interrupted =
            command(folder).args(arguments).env("BURN_SPARSE_FAILPOINT", point).output().unwrap();
        assert_refused(&interrupted, &["interrupted", "--resume"]);
    }
    json(folder, &resume);
    let [whole, cut] = ["whole", "cut"].map(|run| epochs(folder, run, "prune"));
    assert_eq!([whole.len(), cut.len()], [2, 2]);
    for (whole, cut) in whole.iter().zip(&cut) {
        for key in ["loss", "value", "trained_bytes", "mask_changed"] {
            assert!(whole[key].is_number() && whole[key] == cut[key], "{key}: {whole} {cut}");
        }
    }
    let bytes = |epoch: &serde_json::Value| epoch["trained_bytes"].as_u64().unwrap();
    assert!(bytes(&whole[1]) < bytes(&whole[0]), "not packed: {}", whole[1]);
    assert!(whole[0]["mask_changed"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_run_that_fills_its_disk_says_so_and_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let whole = train(folder, "whole", &[]);
    recipe(folder, "", "");
    // Simulates a full disk: with `ulimit -f 64`, writing a file past 64 KB fails.
    let program = env!("CARGO_BIN_EXE_burn-sparse");
    let words = "train recipe.toml --run-dir cut --json";
    let script = format!("trap '' XFSZ; ulimit -f 64; exec {program} {words}");
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder)
        .env("BURN_SPARSE_COSTS", "built-in")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("run file cut/model-dense-001-000000.bpk"), "{stderr}");
    let resumed = json(folder, &["train", "recipe.toml", "--run-dir", "cut", "--json", "--resume"]);
    assert_eq!(resumed["metric"], whole["metric"]);
    assert_eq!(resumed["layers"], whole["layers"]);
}

/// Returns the entries of `epochs.jsonl` for the phase.
fn epochs(folder: &Path, run_dir: &str, phase: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(folder.join(run_dir).join("epochs.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.filter(|line| line["phase"] == phase).collect()
}

#[test]
fn a_phase_ends_when_its_metric_has_been_no_better_for_long_enough_and_keeps_its_best_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // A learning rate that rises until training falls apart, on whatever machine: the metric has a peak.
    let sets = [
        "train.optimizer={ kind = \"adamw\", learning_rate = 0.05 }",
        "train.warmup=0.9",
        "train.dense_epochs=6",
        "train.prune_epochs=8",
        "train.patience=2",
        "train.keep=best",
    ];
    let trained = train(folder, "run", &sets);
    let value = |epoch: &serde_json::Value| epoch["value"].as_f64().unwrap();
    let best = |epochs: &[serde_json::Value]| {
        let first_best = |best: usize, at: usize| {
            if value(&epochs[at]) > value(&epochs[best]) { at } else { best }
        };
        (1..epochs.len()).fold(0, first_best)
    };
    let dense = epochs(folder, "run", "dense");
    let best_dense = best(&dense);
    assert!(dense.len() == 6 || dense.len() == best_dense + 3, "{best_dense} of {}", dense.len());
    assert_eq!(trained["dense_metric"]["value"], dense[best_dense]["value"]);
    // The ramp ends with the first epoch of pruning, so every epoch counts.
    let prune = epochs(folder, "run", "prune");
    let best_prune = best(&prune);
    assert!(prune.len() == 8 || prune.len() == best_prune + 3, "{best_prune} of {}", prune.len());
    assert!(dense.len() + prune.len() < 14, "neither phase ended early");
    assert_eq!(trained["metric"]["value"], prune[best_prune]["value"]);
    // Resuming a finished run reports the same metric again.
    let mut again = arguments(&sets, "run");
    again.push("--resume");
    assert_eq!(json(folder, &again)["metric"], trained["metric"]);
    // No intermediate `best-` files are left.
    let left = std::fs::read_dir(folder.join("run")).unwrap();
    let left = left
        .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().starts_with("best-"));
    assert_eq!(left.count(), 0);
}

#[test]
fn distillation_and_rewinding_change_what_is_learnt_and_bad_values_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let plain = train(folder, "plain", &[]);
    let distilled =
        train(folder, "distilled", &["train.distill={ weight = 0.9, temperature = 4 }"]);
    assert_eq!(distilled["dense_metric"], plain["dense_metric"]);
    assert_ne!(distilled["layers"], plain["layers"], "other masks");
    let (cosine, two) = ("train.learning_rate_schedule=cosine", "train.dense_epochs=2");
    let rewound = |run_dir: &str, sets: &[&str]| {
        train(folder, run_dir, &[&[cosine, two], sets].concat())["layers"].clone()
    };
    let peak = rewound("peak", &[]);
    // Rewinding to the full schedule is what pruning does by default.
    assert_eq!(rewound("all", &["train.rewind=1.0"]), peak);
    assert_ne!(rewound("half", &["train.rewind=0.5"]), peak);

    recipe(folder, "", "");
    for (set, hints) in [
        ("train.distill={ weight = 1.5 }", &["train.distill", "above 0 and up to 1"][..]),
        ("train.distill={ weight = 0.5, temperature = 0 }", &["train.distill", "temperature is 0"]),
        ("train.distill={ temperature = 2 }", &["weight"]),
        ("train.rewind=1.5", &["train.rewind", "above 0 and up to 1"]),
        ("prune.regrow={ partitions = 0 }", &["prune[0].regrow", "at least one of each"]),
        ("prune.regrow={ partitions = 2, fraction = 0.1 }", &["different methods: remove one"]),
        ("train.patience=0", &["train.patience", "at least 1 epoch"]),
        ("train.keep=worst", &["worst", "last", "best"]),
        ("prune.attract=-1", &["prune[0].attract"]),
        ("after.optimizer_state={ on_prune = \"halve\" }", &["halve", "zero", "keep"]),
    ] {
        let arguments = ["train", "recipe.toml", "--run-dir", "bad", "--set", set];
        assert_refused(&run(folder, &arguments), hints);
        assert!(!folder.join("bad").exists());
    }
    let arguments = ["train", "recipe.toml", "--run-dir", "bad", "--set", "train.dense_epochs=0"];
    let arguments = [&arguments[..], &["--set", "train.distill={ weight = 0.5 }"]].concat();
    assert_refused(&run(folder, &arguments), &["train.distill", "needs a dense model", "--from"]);
}
