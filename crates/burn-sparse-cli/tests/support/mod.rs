//! Helpers that run the command-line program as a user does.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns the command with `folder` as its working directory.
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_burn-sparse"));
    command.current_dir(folder).env_remove("BURN_SPARSE_DATA").env_remove("RUST_LOG");
    command.env("HF_HUB_OFFLINE", "1");
    // Selects the same kernels in every process and on every machine.
    command.env("BURN_SPARSE_COSTS", "built-in");
    // Graphics drivers print warnings to standard error if it is unset.
    command.env("XDG_RUNTIME_DIR", std::env::temp_dir());
    command
}

pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder).args(arguments).output().unwrap()
}

/// Runs the command and returns its standard output as JSON: exactly one object.
///
/// Asserts that the exit status is 0.
pub fn json(folder: &Path, arguments: &[&str]) -> serde_json::Value {
    let output = run(folder, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Asserts status 1, an empty standard output, and exactly one error that contains every hint.
pub fn assert_refused(output: &Output, hints: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(stderr.matches("error: ").count(), 1, "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    for hint in hints {
        assert!(stderr.contains(hint), "`{hint}` is not in: {stderr}");
    }
}

/// Recipe of a short run on built-in data.
pub const SHORT: &str = r#"
version = 1
task = "glyphs-mlp"
[train]
dense_epochs = 1
prune_epochs = 2
[[prune]]
except = ["head.*"]
pattern = { kind = "shfl-bw", vector = 32 }
sparsity = 0.75
end = "1 epochs"
every = "20 steps"
"#;

/// Writes the short recipe with `from` replaced by `to` and returns its path.
pub fn recipe(folder: &Path, from: &str, to: &str) -> PathBuf {
    let text = SHORT.replace(from, to);
    assert!(from.is_empty() || text != SHORT, "`{from}` is not in the recipe");
    let path = folder.join("recipe.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// Trains the short recipe with `sets` as `--set` pairs and returns the report.
pub fn train(folder: &Path, run_dir: &str, sets: &[&str]) -> serde_json::Value {
    recipe(folder, "", "");
    let mut arguments = vec!["train", "recipe.toml", "--run-dir", run_dir, "--json"];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    json(folder, &arguments)
}
