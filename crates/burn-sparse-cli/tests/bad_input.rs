//! Every bad input produces one clear error with status 1 and leaves no partially written files.

mod support;

use std::path::Path;

use burn_sparse::checkpoint::{Checkpoint, Format};
use burn_sparse_tests::pretrained::BERT;
use burn_sparse_tests::pretrained_run::Place;
use support::{assert_refused, command, json, recipe, run, train};

/// Trains a recipe with `from` replaced by `to` and asserts that it is refused before anything is written.
fn refused(from: &str, to: &str, hints: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), from, to);
    let arguments = ["train", "recipe.toml", "--run-dir", "run", "--json"];
    assert_refused(&run(folder.path(), &arguments), hints);
    assert!(!folder.path().join("run").exists());
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_what_was_meant() {
    refused(
        "sparsity = 0.75",
        "sparsitty = 0.75",
        &["line 10", "`sparsitty`", "did you mean `sparsity`?"],
    );
}

#[test]
fn a_misspelt_pattern_is_told_the_known_ones() {
    refused("\"shfl-bw\"", "\"shflbw\"", &["`shflbw`", "did you mean `shfl-bw`?"]);
}

#[test]
fn a_selector_that_matches_nothing_is_told_what_there_is() {
    refused(
        "except = [\"head.*\"]",
        "params = [\"fc9.*\"]",
        &["prune[0].params", "`fc9.*` matches no prunable parameter", "fc1.weight, fc2.weight"],
    );
}

#[test]
fn a_sparsity_of_120_percent_is_refused() {
    refused(
        "sparsity = 0.75",
        "sparsity = 1.2",
        &["prune[0].sparsity", "is 1.2", "between 0 and 1"],
    );
}

#[test]
fn a_target_that_keeps_nothing_of_a_block_names_the_nearest() {
    refused(
        "{ kind = \"shfl-bw\", vector = 32 }\nsparsity = 0.75",
        "{ kind = \"balanced\", block = 32 }\nsparsity = 0.99",
        &["fc1.weight (256x784)", "keeps 0 of 32", "0.96875 (keeps 1)"],
    );
}

#[test]
fn an_end_before_the_start_is_refused() {
    refused(
        "end = \"1 epochs\"",
        "start = \"1 epochs\"\nend = \"10 steps\"",
        &["prune[0].end", "before its start"],
    );
}

#[test]
fn an_end_after_training_is_refused() {
    refused("end = \"1 epochs\"", "end = \"3 epochs\"", &["prune[0].end", "only 314 steps"]);
}

#[test]
fn an_unknown_task_is_told_the_known_ones() {
    refused("glyphs-mlp", "glyph-mlp", &["unknown task `glyph-mlp`, did you mean `glyphs-mlp`?"]);
}

#[test]
fn broken_toml_is_named_with_its_line() {
    refused("[train]", "[train", &["line 4"]);
}

#[test]
fn weights_that_become_nan_stop_the_run_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), "", "");
    let rate = "train.optimizer={ kind = \"sgd\", learning_rate = 1e30 }";
    let arguments = ["train", "recipe.toml", "--run-dir", "run", "--json", "--set", rate];
    let output = run(folder.path(), &arguments);
    assert_refused(&output, &["the loss is ", "lower train.optimizer.learning_rate"]);
    assert!(!folder.path().join("run/checkpoint.safetensors").exists());
}

#[test]
fn missing_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let pattern = ["--pattern", "unstructured", "--sparsity", "0.5", "--out", "x"];
    for (arguments, hints) in [
        (vec!["eval", "empty"], vec!["empty has neither", "a finished run", "a pretrained model"]),
        (vec!["inspect", "empty"], vec!["empty has neither"]),
        ([&["prune", "empty"], &pattern[..]].concat(), vec!["empty", "config.json"]),
        (vec!["train", "no.toml"], vec!["cannot read recipe no.toml"]),
        (vec!["eval", "no.safetensors"], vec!["cannot read checkpoint no.safetensors"]),
        (vec!["inspect", "no.safetensors"], vec!["no.safetensors"]),
        (vec!["bench", "no.safetensors"], vec!["no.safetensors"]),
        (
            vec!["export", "no.safetensors", "--format", "dense", "--out", "x"],
            vec!["no.safetensors"],
        ),
    ] {
        assert_refused(&run(folder.path(), &arguments), &hints);
    }
    recipe(folder.path(), "glyphs-mlp", "mnist-mlp");
    let arguments = ["train", "recipe.toml", "--data-dir", "nowhere", "--run-dir", "run"];
    let hints = ["train-images-idx3-ubyte", "nowhere", "there is no such folder"];
    assert_refused(&run(folder.path(), &arguments), &hints);
    assert!(!folder.path().join("run").exists());
}

#[test]
fn damaged_and_foreign_checkpoints_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    train(folder, "run", &[]);
    let bytes = std::fs::read(folder.join("run/checkpoint.safetensors")).unwrap();
    let refuse = |bytes: &[u8], hints: &[&str]| {
        std::fs::write(folder.join("bad.safetensors"), bytes).unwrap();
        for command in ["eval", "inspect", "bench"] {
            assert_refused(&run(folder, &[command, "bad.safetensors"]), hints);
        }
    };
    for length in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
        refuse(&bytes[..length], &["bad.safetensors: no complete safetensors file"]);
    }
    // The stored mask hash is changed: the file is well-formed, but the hash no longer matches the mask.
    let mut moved = bytes.clone();
    replace(&mut moved, br#"\"mask_hash\":\""#, br#"\"mask_hash\":\"0000"#);
    refuse(&moved, &["hash is ", "the file says 0000"]);
    let mut other_version = bytes.clone();
    replace(&mut other_version, br#""burn-sparse.version":"1""#, br#""burn-sparse.version":"9""#);
    refuse(&other_version, &["`burn-sparse.version` is `9`, expected `1`"]);

    // A plan whose ramp never ends, and a square weight whose linear view is replaced by a convolution's.
    let mut endless = bytes.clone();
    replace(&mut endless, br#"\"every\":20"#, br#"\"every\": 0"#);
    refuse(&endless, &["`burn-sparse.plan`", "ramps that end"]);
    let mut turned = bytes.clone();
    let linear = br#"\"view\":{\"linear\":{\"rows\":256,\"cols\":256}}"#;
    let conv = br#"\"view\":{\"conv\":{\"rows\":256,\"channels\":256,\"kernel\":[]}}"#;
    let growth = conv.len() - linear.len();
    // The plan also contains the view, before the tensors' metadata: replace the last occurrence.
    let at = turned.windows(linear.len()).rposition(|window| window == linear).unwrap();
    turned.splice(at..at + linear.len(), conv.iter().copied());
    let length = u64::from_le_bytes(turned[..8].try_into().unwrap()) + growth as u64;
    turned[..8].copy_from_slice(&length.to_le_bytes());
    std::fs::write(folder.join("bad.safetensors"), turned).unwrap();
    let hints = ["does not fit the model", "fc2.weight is packed as Conv"];
    assert_refused(&run(folder, &["eval", "bad.safetensors"]), &hints);

    // A checkpoint of one task, relabeled as another.
    let mut other_task = bytes.clone();
    replace(&mut other_task, br#"task = \"glyphs-mlp\""#, br#"task = \"mnist-mlp\" "#);
    std::fs::write(folder.join("bad.safetensors"), other_task).unwrap();
    let hints = ["does not fit the model", "fc1.weight is [784, 256] in the file, [784, 512]"];
    assert_refused(&run(folder, &["eval", "bad.safetensors"]), &hints);

    // A plain safetensors file without burn-sparse metadata.
    let arguments =
        ["export", "run", "--format", "dense", "--layout", "pytorch", "--out", "plain.safetensors"];
    assert!(run(folder, &arguments).status.success());
    let hints = ["`burn-sparse.version` is missing"];
    assert_refused(&run(folder, &["eval", "plain.safetensors"]), &hints);
}

/// Overwrites the first occurrence of `from` with `to`, keeping the length of the file.
fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let at = bytes.windows(from.len()).position(|window| window == from);
    let at = at.unwrap_or_else(|| panic!("no {}", String::from_utf8_lossy(from)));
    bytes[at..at + to.len()].copy_from_slice(to);
}

#[test]
fn runs_are_neither_overwritten_nor_mixed_up() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    train(folder, "run", &[]);
    let before = std::fs::read(folder.join("run/checkpoint.safetensors")).unwrap();
    let arguments = ["train", "recipe.toml", "--run-dir", "run"];
    assert_refused(&run(folder, &arguments), &["already holds a run", "--resume"]);
    let other = [&arguments[..], &["--resume", "--set", "seed=5"]].concat();
    assert_refused(&run(folder, &other), &["run of another recipe: seed is 0 there, 5 here"]);
    let set = [&arguments[..], &["--resume", "--set", "train.clip=1.5"]].concat();
    assert_refused(&run(folder, &set), &["train.clip is not set there, 1.5 here"]);
    let empty = ["train", "recipe.toml", "--run-dir", "empty", "--resume"];
    assert_refused(&run(folder, &empty), &["empty holds no run to resume"]);
    assert_eq!(std::fs::read(folder.join("run/checkpoint.safetensors")).unwrap(), before);
    // Before the data is looked for.
    let (_, missing) = (recipe(folder, "glyphs-mlp", "mnist-mlp"), ["--data-dir", "nowhere"]);
    let again = [&arguments[..], &missing].concat();
    assert_refused(&run(folder, &again), &["already holds a run"]);
    let resumed = [&empty[..], &missing].concat();
    assert_refused(&run(folder, &resumed), &["empty holds no run to resume"]);
}

#[test]
fn files_that_no_run_has_written_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, "", "");
    for file in ["results.json", "epochs.jsonl", "calibration.json", "teacher.bpk"] {
        let of_run = folder.join(file.replace('.', "-"));
        std::fs::create_dir(&of_run).unwrap();
        std::fs::write(of_run.join(file), "mine").unwrap();
        let name = of_run.file_name().unwrap().to_str().unwrap();
        for _ in 0..2 {
            let output = run(folder, &["train", "recipe.toml", "--run-dir", name]);
            assert_refused(&output, &[file, "is there already", "--run-dir"]);
        }
        assert_eq!(std::fs::read(of_run.join(file)).unwrap(), b"mine");
    }
}

#[test]
fn a_recipe_that_trains_nothing_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), "", "");
    let arguments = ["train", "recipe.toml", "--run-dir", "run", "--set", "train.freeze=[\"*\"]"];
    let hints = ["train.freeze", "leaves no parameter to train"];
    assert_refused(&run(folder.path(), &arguments), &hints);
    assert!(!folder.path().join("run").exists());
}

#[test]
fn two_processes_never_train_in_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, "", "");
    std::fs::create_dir(folder.join("run")).unwrap();
    let held = std::fs::File::create(folder.join("run/.lock")).unwrap();
    held.lock().unwrap();
    let arguments = ["train", "recipe.toml", "--run-dir", "run"];
    assert_refused(&run(folder, &arguments), &["another process is training in run"]);
    assert!(!folder.join("run/recipe.toml").exists());
    drop(held);
    train(folder, "run", &[]);
}

#[test]
fn a_checkpoint_that_lies_where_a_run_would_write_its_own_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, "", "");
    // Twice: a refusal leaves nothing that would let the next attempt pass.
    for file in ["initial.safetensors", "initial.safetensors", "checkpoint.safetensors"] {
        let path = folder.join(file);
        std::fs::write(&path, "mine").unwrap();
        let arguments = ["train", "recipe.toml", "--run-dir", "."];
        assert_refused(&run(folder, &arguments), &["choose another --run-dir"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_benchmark_that_no_memory_holds_is_refused() {
    let bench = ["bench", "--pattern", "unstructured", "--shape"];
    for (shape, batch) in
        [("64x64", "1000000000000"), ("64x64", "18446744073709551615"), ("600000x600000", "1")]
    {
        let output = run(Path::new("."), &[&bench[..], &[shape, "--batch", batch]].concat());
        assert_refused(&output, &["too large to time"]);
    }
}

#[test]
fn bad_usage_has_status_2() {
    for arguments in [
        &["trian"][..],
        &["bench"],
        &["bench", "--shape", "12", "--pattern", "balanced"],
        &["bench", "--shape", "12x12", "--pattern", "ballanced"],
        &["bench", "--shape", "12x12"],
        &["prune", "x", "--pattern", "balanced", "--sparsity", "0.5", "--out", "y", "--repair"],
        &[
            "prune",
            "x",
            "--pattern",
            "balanced",
            "--sparsity",
            "0.5",
            "--out",
            "y",
            "--reconstruct",
            "9",
        ],
        &["prune", "x", "--sparsity", "0", "--out", "y"],
        &["prune", "x", "--sparsity", "0.5", "--out", "y"],
        &["prune", "x", "--sparsity", "0", "--out", "y", "--values", "w4a8"],
        &["prune", "x", "--sparsity", "0", "--out", "y", "--calibrate", "t", "--values", "bf16"],
        &["train", "--resume"],
        &["export", "x", "--format", "packed", "--layout", "pytorch", "--out", "y"],
        &["prune", "x", "--pattern", "balanced", "--out", "y"],
        &["prune", "x", "--pattern", "n-of-m(keep=1,of=4)", "--sparsity", "0.5", "--out", "y"],
    ] {
        assert_eq!(run(Path::new("."), arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_model_that_is_neither_here_nor_on_the_hub_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let commands: [&[&str]; 5] = [
        &["eval", "owner/model"],
        &["embed", "owner/model"],
        &["generate", "owner/model", "--prompt", "a"],
        &[
            "prune",
            "owner/model",
            "--pattern",
            "balanced(block=32)",
            "--sparsity",
            "0.5",
            "--out",
            "out",
        ],
        &["export", "owner/model", "--layout", "huggingface", "--format", "packed", "--out", "out"],
    ];
    for arguments in commands {
        let hints = ["there is no folder owner/model", "hf download owner/model"];
        assert_refused(&command(folder).args(arguments).output().unwrap(), &hints);
        if cfg!(feature = "hub") {
            let mut online = command(folder);
            online.args(arguments).env("HF_HOME", folder).env("HF_HUB_OFFLINE", "0");
            // No server listens on this port.
            let output = online.env("HF_ENDPOINT", "http://127.0.0.1:9").output().unwrap();
            assert_refused(&output, &["cannot fetch owner/model", "into a folder, and name that"]);
        }
        assert!(!folder.join("out").exists());
    }
}

#[test]
fn options_that_would_have_no_effect_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    train(path, "run", &[]);
    for (arguments, option) in [
        (&["generate", "m", "--prompt", "a", "--seed", "5"][..], "--temperature"),
        (&["bench", "run", "--sparsity", "0.9"], "--sparsity"),
        (&["bench", "run", "--pattern", "unstructured"], "--pattern"),
        (&["sweep", "--patterns", "unstructured", "--sensitivity", "--seeds", "5"], "--seeds"),
        (&["sweep", "--patterns", "unstructured", "--sensitivity", "--allow", "0.1"], "--write"),
        (
            &[
                "prune",
                "x",
                "--pattern",
                "balanced",
                "--sparsity",
                "0.5",
                "--out",
                "y",
                "--cap",
                "0.9",
            ],
            "--cap",
        ),
        (&["export", "run", "--out", "y"], "--format"),
        (&["embed", "m", "--out", "y.npy", "--json"], "--json"),
    ] {
        let output = run(path, arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(option), "{arguments:?}: {stderr}");
    }
    for option in ["--text", "--windows", "--context"] {
        assert_refused(&run(path, &["eval", "run", option, "3"]), &[option, "Hugging Face"]);
    }
    let embedder = Place::new(BERT);
    let model = embedder.model.path().to_str().unwrap();
    let prune =
        ["prune", model, "--pattern", "balanced(block=4)", "--sparsity", "0.5", "--out", "x"];
    for (option, value, needed) in
        [("--toward-dense", "0.5", "--repair"), ("--length", "8", "language models")]
    {
        let calibrated = [&prune[..], &["--calibrate", "text", option, value]].concat();
        let stderr = String::from_utf8_lossy(&run(path, &calibrated).stderr).into_owned();
        assert!(stderr.contains(option) && stderr.contains(needed), "{stderr}");
    }
    let rounded = ["--calibrate", "text", "--values", "w8a8", "--format", "dense"];
    let output = run(path, &[&prune[..], &rounded].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("--format dense holds floats"), "{stderr}");
    for option in ["--text", "--windows", "--context"] {
        let output = run(path, &["eval", model, option, "3"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(option) && stderr.contains("language models"), "{stderr}");
    }
    recipe(path, "", "");
    let unpruned = ["train", "recipe.toml", "--set", "prune=[]", "--set", "prune.sparsity=0.9"];
    assert_refused(&run(path, &unpruned), &["`prune`", "empty", "prune.sparsity=0.9"]);
}

#[test]
fn a_value_within_a_plain_value_cannot_be_set() {
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), "", "");
    let set = ["plan", "recipe.toml", "--set", "prune.sparsity.share=0.9"];
    assert_refused(&run(folder.path(), &set), &["prune.sparsity.share", "plain value"]);
}

#[test]
fn a_checkpoint_with_a_recipe_of_another_version_is_inspected_and_a_report_names_it() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), "run", &[]);
    let path = folder.path().join("run/checkpoint.safetensors");
    let checkpoint = Checkpoint::read(&path).unwrap();
    let provenance = checkpoint.provenance().clone().with_recipe("version = 99\n");
    checkpoint.with_provenance(provenance).write(&path, Format::Packed).unwrap();
    let found = json(folder.path(), &["inspect", "run", "--json"]);
    assert!(found["task"].is_null() && found["recipe"] == "version = 99\n", "{found}");
    assert_refused(
        &run(folder.path(), &["report", "run"]),
        &["run/checkpoint.safetensors", "task"],
    );
}

#[test]
fn an_output_in_a_folder_that_is_not_there_names_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), "run", &[]);
    let arguments = ["export", "run", "--format", "dense", "--out", "nowhere/x.safetensors"];
    assert_refused(
        &run(folder.path(), &arguments),
        &["nowhere/x.safetensors", "no folder nowhere"],
    );
    // Before anything is pruned, trained or measured.
    let prune = ["prune", "x.safetensors", "--pattern", "unstructured", "--sparsity", "0.5"];
    let prune = [&prune[..], &["--format", "packed", "--out", "nowhere/x.safetensors"]].concat();
    assert_refused(&run(folder.path(), &prune), &["nowhere/x.safetensors", "no folder nowhere"]);
    let sweep = ["sweep", "recipe.toml", "--patterns", "unstructured", "--sensitivity"];
    let sweep = [&sweep[..], &["--run-dir", "s", "--write", "nowhere/x.toml"]].concat();
    assert_refused(&run(folder.path(), &sweep), &["nowhere/x.toml", "no folder nowhere"]);
    assert!(!folder.path().join("s").exists());
    let report = ["report", "run", "--out", "nowhere/x.html"];
    assert_refused(&run(folder.path(), &report), &["nowhere/x.html", "no folder nowhere"]);
    let report = ["report", "run", "--out", "run"];
    assert_refused(&run(folder.path(), &report), &["cannot write run", "it is a folder"]);
}

#[test]
fn bad_usage_shows_the_usage_of_the_subcommand() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["prune", "x.safetensors", "--out", "y.safetensors"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("--pattern") && stderr.contains("burn-sparse prune"), "{stderr}");
}
