//! Tests of `--device`: devices this build and machine support, and one clear error for every other device.

mod support;

use std::path::Path;

use support::{assert_refused, command, json, run};

fn refused(device: &str, hints: &[&str]) {
    let output = run(Path::new("."), &["train", "--device", device]);
    assert_refused(&output, &[&[device], hints].concat());
}

#[test]
fn bench_times_the_passes_of_training() {
    let bench = ["bench", "--shape", "128x64", "--pattern", "shfl-bw(vector=16)", "--batch", "16"];
    let report = json(Path::new("."), &[&bench[..], &["--training", "--json"]].concat());
    let row = &report["rows"][0];
    for layer in ["dense", "sparse"] {
        let parts = ["forward_us", "input_gradient_us", "weight_gradient_us"];
        let sum: f64 = parts.iter().map(|part| row["passes"][layer][part].as_f64().unwrap()).sum();
        let total = row[format!("{layer}_us")].as_f64().unwrap();
        assert!(total > 0.0 && (sum - total).abs() < 1e-6 * total, "{row}");
    }
    let plain = json(Path::new("."), &[&bench[..], &["--json"]].concat());
    assert!(plain["rows"][0]["passes"].is_null());
}

#[test]
fn a_device_that_does_not_exist_is_one_clear_error() {
    refused("tpu", &["unknown device", "flex"]);
    refused("flex:1", &["one CPU"]);
    refused("cuda:one", &["no number of a device"]);
}

#[test]
#[cfg(not(feature = "cuda"))]
fn a_device_that_this_build_lacks_is_one_clear_error() {
    refused("cuda:0", &["--features cuda", "flex"]);
}

#[test]
#[cfg(feature = "cuda")]
fn a_gpu_past_the_last_is_one_clear_error() {
    refused("cuda:99", &[]);
}

#[test]
fn an_instruction_set_that_the_cpu_lacks_is_ignored_with_a_warning() {
    let bench = ["bench", "--shape", "64x64", "--pattern", "balanced(block=32)", "--batch", "1"];
    for (set, warned) in [("avx3", true), ("scalar", false), ("", false)] {
        let output =
            command(Path::new(".")).args(bench).env("BURN_SPARSE_ISA", set).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let warning = stderr.contains("ignored BURN_SPARSE_ISA") && stderr.contains("scalar");
        assert_eq!(warning, warned, "{set}: {stderr}");
    }
}

#[test]
fn the_cpu_runs_pruned_weights_of_two_bytes() {
    let (shape, pattern) = ("1024x512", "shfl-bw(vector=32),balanced(block=32)");
    for dtype in ["bf16", "f16"] {
        let bench = ["bench", "--shape", shape, "--pattern", pattern, "--values", dtype, "--json"];
        let report = json(Path::new("."), &[&bench[..], &["--batch", "1"]].concat());
        for row in report["rows"].as_array().unwrap() {
            assert!(row["kernel"].as_str().unwrap().starts_with("flex-"), "{row}");
            assert!(row["predicted"]["dense_us"].as_f64().unwrap() > 0.0, "{row}");
        }
    }
}

#[cfg(feature = "wgpu")]
mod on_a_gpu {
    use super::support::{assert_refused, json, recipe, run};

    #[test]
    fn a_run_trains_and_evaluates_there_and_on_the_cpu_alike() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        recipe(folder, "every = ", "regrow = \"straight-through\"\nevery = ");
        let train = ["train", "recipe.toml", "--run-dir", "run", "--device", "wgpu:0", "--json"];
        let trained = json(folder, &train);
        let gpu = json(folder, &["eval", "run", "--device", "wgpu:0", "--json"]);
        let cpu = json(folder, &["eval", "run", "--json"]);
        for (report, prefix) in [(&trained, "cube-"), (&gpu, "cube-"), (&cpu, "flex-")] {
            let layers = report["layers"].as_array().unwrap();
            let kernels = layers.iter().filter_map(|layer| layer["kernel"].as_str());
            let pruned: Vec<&str> =
                kernels.filter(|kernel| !kernel.contains("not pruned")).collect();
            assert!(!pruned.is_empty(), "{report}");
            assert!(pruned.iter().all(|kernel| kernel.starts_with(prefix)), "{pruned:?}");
        }
        let metric = |report: &serde_json::Value| report["metric"]["value"].as_f64().unwrap();
        assert!((metric(&gpu) - metric(&trained)).abs() < 1e-9);
        assert!((metric(&gpu) - metric(&cpu)).abs() < 5e-3, "{gpu} {cpu}");
    }

    #[test]
    fn layers_are_timed_there() {
        let folder = tempfile::tempdir().unwrap();
        let bench = [
            "bench",
            "--shape",
            "64x64",
            "--pattern",
            "shfl-bw(vector=32),balanced(block=32)",
            "--batch",
            "1,40",
            "--device",
            "wgpu",
            "--json",
        ];
        let report = json(folder.path(), &bench);
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 4);
        assert!(rows.iter().all(|row| row["kernel"].as_str().unwrap().starts_with("cube-")));
        assert_refused(&run(folder.path(), &[&bench[..8], &["wgpu:99"]].concat()), &["wgpu:99"]);
    }
}
