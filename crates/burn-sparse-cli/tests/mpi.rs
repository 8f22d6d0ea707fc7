//! Runs on several ranks, started by `mpirun` on this machine. `BURN_SPARSE_KILLS` sets how many runs are killed.
#![cfg(all(unix, feature = "mpi"))]

mod support;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{json, recipe, train};

/// Time within which all ranks must have ended after one has.
const SOON: Duration = Duration::from_secs(15);

/// Returns `mpirun`, which also runs as root, and starts more ranks than there are cores.
fn mpirun(folder: &Path) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
    command.current_dir(folder).env_remove("BURN_SPARSE_DATA").env_remove("RUST_LOG");
    command.env("BURN_SPARSE_COSTS", "built-in");
    command
}

/// Adds ranks that run `burn-sparse` with these arguments.
fn ranks<'a>(command: &'a mut Command, count: usize, arguments: &[&str]) -> &'a mut Command {
    command.args(["-n", &count.to_string(), env!("CARGO_BIN_EXE_burn-sparse")]).args(arguments)
}

/// Settings of the short recipe with dense, masked, and packed steps: masked ones along the whole ramp.
const FORMS: [&str; 2] = ["train.compute=packed", "prune.regrow=straight-through"];

/// Arguments of the short recipe with these settings.
fn short<'a>(run_dir: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let head = ["train", "recipe.toml", "--json", "--run-dir", run_dir];
    [&head, &["--set", FORMS[0], "--set", FORMS[1]][..], more].concat()
}

fn ended(command: &mut Command) -> (Output, String) {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, stderr)
}

fn trained(folder: &Path, count: usize, arguments: &[&str]) -> Value {
    let (output, stderr) = ended(ranks(&mut mpirun(folder), count, arguments));
    assert!(output.status.success(), "{stderr}");
    // One rank writes and reports.
    serde_json::from_slice(&output.stdout).unwrap()
}

fn weights(folder: &Path, run_dir: &str) -> Vec<u8> {
    let out = format!("{run_dir}.safetensors");
    let arguments = ["export", run_dir, "--format", "dense", "--out", &out];
    assert!(support::run(folder, &arguments).status.success());
    std::fs::read(folder.join(out)).unwrap()
}

/// Asserts that a run ended with these errors of ours and no others, within bounds.
fn assert_ended(output: &Output, stderr: &str, errors: &[&str]) {
    assert!(!output.status.success(), "{stderr}");
    assert_eq!(stderr.matches("error: ").count(), errors.len(), "{stderr}");
    assert!(errors.iter().all(|error| stderr.contains(error)), "{errors:?}: {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn one_rank_has_the_bits_of_a_process_alone_and_more_ranks_its_losses() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let alone = train(folder, "alone", &FORMS);
    let one = trained(folder, 1, &short("one", &[]));
    assert_eq!(one["layers"], alone["layers"]);
    assert!(weights(folder, "one") == weights(folder, "alone"));
    let epochs = |run: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(folder.join(run).join("epochs.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    for count in [2, 4] {
        let run = format!("ranks-{count}");
        let found = trained(folder, count, &short(&run, &[]));
        assert_eq!(found["sparsity"], 0.75);
        // Before masks, which amplify rounding, nothing but the order of sums differs.
        let (found, expected) = (epochs(&run), epochs("alone"));
        let loss = |epoch: &Value| epoch["loss"].as_f64().unwrap();
        assert!((loss(&found[0]) / loss(&expected[0]) - 1.0).abs() < 1e-3);
        assert_eq!(found[0]["ranks"], count);
        // Packed steps send a quarter of the pruned weights, and the rest of the parameters.
        let bytes =
            |form: &str| found.iter().find_map(|epoch| epoch["steps"][form]["bytes"].as_f64());
        let (all, pruned) = (784 * 256 + 256 * 256 + 256 * 10 + 522, 784 * 256 + 256 * 256);
        assert_eq!(bytes("masked_traffic"), Some(4.0 * f64::from(all)));
        assert_eq!(bytes("packed_traffic"), Some(4.0 * f64::from(all - pruned + pruned / 4)));
    }
}

#[test]
fn every_option_of_training_repeats_on_ranks_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, "", "");
    let fixed =
        "version = 1\ntask = \"glyphs-mlp\"\n[train]\nkeep_zeros = true\nprune_epochs = 1\n";
    std::fs::write(folder.join("fixed.toml"), fixed).unwrap();
    let calibrated = "calibrate={ samples = 64, score = \"obs\", repair = true }";
    let options: [&[&str]; 3] = [
        &[
            "train.keep=best",
            "train.patience=1",
            "train.distill={ weight = 0.5 }",
            "train.clip=0.1",
        ],
        &[
            "train.micro_batch=8",
            "train.freeze=[\"head.*\"]",
            "prune.regrow={ fraction = 0.3, score = \"gradient\" }",
        ],
        &[calibrated, "prune.end=0 steps", "prune.every=1 steps"],
    ];
    for (number, options) in options.into_iter().enumerate() {
        let sets: Vec<&str> = options.iter().flat_map(|set| ["--set", set]).collect();
        let runs = [format!("first-{number}"), format!("second-{number}")];
        let found = runs.each_ref().map(|run| trained(folder, 3, &short(run, &sets)));
        assert_eq!(found[0]["layers"], found[1]["layers"], "{options:?}");
        assert!(weights(folder, &runs[0]) == weights(folder, &runs[1]), "{options:?}");
        // With fixed masks, from the checkpoint of the run.
        let fixed = format!("fixed-{number}");
        let fixed = ["train", "fixed.toml", "--json", "--from", &runs[0], "--run-dir", &fixed];
        let fixed = trained(folder, 2, &fixed);
        assert_eq!(fixed["sparsity"], 0.75);
        let hashes = |report: &Value| -> Vec<Value> {
            let layers = report["layers"].as_array().unwrap();
            layers.iter().map(|layer| layer["mask_hash"].clone()).collect()
        };
        assert_eq!(hashes(&fixed), hashes(&found[0]));
    }
}

#[test]
fn an_interrupted_run_resumes_to_the_same_bits_and_on_another_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, "", "");
    let whole = trained(folder, 2, &short("whole", &[]));
    for point in ["interrupt@dense:1:40", "interrupt@prune:1:31", "interrupt@prune:2:9"] {
        let cut = short("cut", if point.contains("dense") { &[] } else { &["--resume"] });
        // Ctrl-C may reach one rank only.
        let arguments =
            [&["BURN_SPARSE_FAILPOINT=off", env!("CARGO_BIN_EXE_burn-sparse")], &cut[..]].concat();
        let mut command = mpirun(folder);
        command.args(["-n", "1", "env"]).args(arguments).args([":", "-n", "1", "env"]);
        let set = format!("BURN_SPARSE_FAILPOINT={point}");
        command.args([set.as_str(), env!("CARGO_BIN_EXE_burn-sparse")]).args(&cut);
        let (output, stderr) = ended(&mut command);
        assert_ended(&output, &stderr, &["go on with: mpirun -n 2 burn-sparse train"]);
        assert!(stderr.contains("--resume"), "{stderr}");
    }
    let other = folder.join("other");
    std::fs::create_dir(&other).unwrap();
    for file in std::fs::read_dir(folder.join("cut")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), other.join(file.file_name())).unwrap();
    }
    let resumed = trained(folder, 2, &short("cut", &["--resume"]));
    assert_eq!(resumed["layers"], whole["layers"]);
    assert!(weights(folder, "whole") == weights(folder, "cut"));
    for count in [3, 1] {
        let resumed = trained(folder, count, &short("other", &["--resume"]));
        // The masks were final before.
        assert_eq!(resumed["layers"], whole["layers"]);
    }
}

#[test]
fn an_error_of_any_rank_is_printed_once_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, "", "");
    let mnist = ["train", "mnist-mlp-balanced", "--run-dir", "run", "--data-dir"];
    for (dirs, error) in
        [(["gone", "gone"], "gone"), (["gone", "lost"], "gone"), (["lost", "gone"], "lost")]
    {
        let mut command = mpirun(folder);
        ranks(&mut command, 1, &[&mnist[..], &dirs[..1]].concat()).arg(":");
        let (output, stderr) = ended(ranks(&mut command, 1, &[&mnist[..], &dirs[1..]].concat()));
        assert_ended(&output, &stderr, &[&format!("in {error}")]);
        assert!(!folder.join("run").exists());
    }
    // Rank 1 alone: what it says is told by rank 0.
    let mut command = mpirun(folder);
    ranks(&mut command, 1, &short("run", &[])).arg(":");
    let (output, stderr) = ended(ranks(&mut command, 1, &["train", "no-such.toml"]));
    assert_ended(&output, &stderr, &["rank 1: ", "no-such.toml"][..1]);
    assert!(stderr.contains("no-such.toml") && !folder.join("run").exists(), "{stderr}");
    let (output, stderr) = ended(ranks(&mut mpirun(folder), 3, &["train", "--wrong"]));
    assert_ended(&output, &stderr, &["--wrong"]);
    // A run that is there already, and one that cannot be written.
    std::fs::create_dir(folder.join("full")).unwrap();
    std::fs::write(folder.join("full/recipe.toml"), "").unwrap();
    let (output, stderr) = ended(ranks(&mut mpirun(folder), 2, &short("full", &[])));
    assert_ended(&output, &stderr, &["already holds a run"]);
    let (output, stderr) = ended(ranks(&mut mpirun(folder), 2, &short("recipe.toml", &[])));
    assert_ended(&output, &stderr, &["recipe.toml"]);
}

/// Returns the processes of these ranks.
fn processes(mpirun: &Child) -> Vec<i32> {
    let parent = mpirun.id().to_string();
    let output = Command::new("pgrep").args(["-P", &parent]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Kills a rank after this time; returns its output unless the run ended before.
fn killed(mut command: Command, after: Duration, rank: usize) -> Option<Output> {
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(after);
    let found = processes(&child).get(rank).copied();
    if let Some(process) = found {
        Command::new("kill").args(["-KILL", &process.to_string()]).status().unwrap();
    }
    let since = Instant::now();
    let output = child.wait_with_output().unwrap();
    if found.is_some() {
        assert!(since.elapsed() < SOON, "{}", String::from_utf8_lossy(&output.stderr));
    }
    (!output.status.success()).then_some(output)
}

#[test]
fn a_killed_rank_ends_all_and_the_run_resumes_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, "", "");
    let began = Instant::now();
    trained(folder, 2, &short("whole", &[]));
    let took = began.elapsed();
    let expected = weights(folder, "whole");
    let kills: u32 = std::env::var("BURN_SPARSE_KILLS").map_or(6, |kills| kills.parse().unwrap());
    let (mut killings, mut run) = (0, 0);
    for attempt in 0..8 * kills {
        if killings == kills {
            break;
        }
        let name = format!("cut-{run}");
        // A run that was killed before its first file begins again.
        let begun = folder.join(&name).join("recipe.toml").exists();
        let mut command = mpirun(folder);
        ranks(&mut command, 2, &short(&name, if begun { &["--resume"] } else { &[] }));
        // Anywhere from the first message to the last file; the golden ratio spreads the moments.
        let moment = took.mul_f64((0.618_034 * f64::from(attempt)).fract());
        let Some(output) = killed(command, moment, attempt as usize % 2) else {
            assert!(weights(folder, &name) == expected, "{name}");
            run += 1;
            continue;
        };
        killings += 1;
        let stderr = String::from_utf8_lossy(&output.stderr);
        // The launcher's message; the ranks have nothing to say.
        assert_eq!(stderr.matches("error: ").count(), 0, "{stderr}");
        assert_eq!(stderr.matches("exited on signal 9").count(), 1, "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
    assert_eq!(killings, kills, "runs ended before they were killed");
    let name = format!("cut-{run}");
    let begun = folder.join(&name).join("recipe.toml").exists();
    trained(folder, 2, &short(&name, if begun { &["--resume"] } else { &[] }));
    assert!(weights(folder, &name) == expected);
    for run in 0..=run {
        let left = std::fs::read_dir(folder.join(format!("cut-{run}"))).unwrap();
        let names = left.map(|file| file.unwrap().file_name().to_string_lossy().into_owned());
        let names: Vec<String> = names.collect();
        assert!(!names.iter().any(|name| name.contains("unproven")), "{names:?}");
    }
    eprintln!("{killings} killings in {} runs", run + 1);
}

#[test]
fn a_signal_to_the_launcher_leaves_a_run_that_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, "dense_epochs = 1", "dense_epochs = 10");
    let long = ["--set", "train.dense_epochs=10"];
    let mut command = mpirun(folder);
    // On a busy machine a step and its files may take longer than the second that ranks have by default.
    command.args(["--mca", "odls_base_sigkill_timeout", "5"]);
    ranks(&mut command, 2, &short("cut", &long)).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let state = folder.join("cut/state.json");
    while !state.exists() {
        assert!(child.try_wait().unwrap().is_none(), "ended before its first epoch");
        std::thread::sleep(Duration::from_millis(20));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let since = Instant::now();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(since.elapsed() < SOON);
    assert_ended(&output, &stderr, &["interrupted; go on with: mpirun -n 2"]);
    let step = |state: &Path| {
        let state: Value = serde_json::from_slice(&std::fs::read(state).unwrap()).unwrap();
        assert_eq!(state["phase"], "dense");
        state["epoch"].as_u64().unwrap()
    };
    assert!(step(&state) < 10);
    // Without the launcher, alone.
    let resumed = json(folder, &short("cut", &[&long[..], &["--resume"]].concat()));
    assert_eq!(resumed["sparsity"], 0.75);
}
