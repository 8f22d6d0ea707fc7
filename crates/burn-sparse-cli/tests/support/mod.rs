//! Running the command as a user does.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The command in a folder of its own.
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_burn-sparse"));
    command.current_dir(folder).env_remove("BURN_SPARSE_DATA").env_remove("RUST_LOG");
    // The same kernels in every process, on whatever machine.
    command.env("BURN_SPARSE_COSTS", "built-in");
    // Without one, graphics drivers complain on standard error.
    command.env("XDG_RUNTIME_DIR", std::env::temp_dir());
    command
}

pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder).args(arguments).output().unwrap()
}

/// Standard output as JSON: exactly one object, status 0.
pub fn json(folder: &Path, arguments: &[&str]) -> serde_json::Value {
    let output = run(folder, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Status 1, nothing on standard output, one error that holds every hint.
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

/// A short run on built-in data.
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

/// Writes a recipe, `from` replaced by `to`.
pub fn recipe(folder: &Path, from: &str, to: &str) -> PathBuf {
    let text = SHORT.replace(from, to);
    assert!(from.is_empty() || text != SHORT, "`{from}` is not in the recipe");
    let path = folder.join("recipe.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// Trains the short recipe; `sets` are `--set` pairs.
pub fn train(folder: &Path, run_dir: &str, sets: &[&str]) -> serde_json::Value {
    recipe(folder, "", "");
    let mut arguments = vec!["train", "recipe.toml", "--run-dir", run_dir, "--json"];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    json(folder, &arguments)
}
