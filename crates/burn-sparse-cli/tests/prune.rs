//! One-shot pruning of files without any model code.

mod support;

use std::path::Path;

use half::{bf16, f16};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use support::{assert_refused, json, run, train};

/// Prunes `in.safetensors` with the given arguments and returns the tensors of the report.
fn prune(folder: &Path, pattern: &str, more: &[&str]) -> Vec<serde_json::Value> {
    let arguments = ["prune", "in.safetensors", "--out", "out.safetensors", "--json", "--pattern"];
    let report = json(folder, &[&arguments[..], &[pattern], more].concat());
    report["tensors"].as_array().unwrap().clone()
}

fn sum(tensors: &[serde_json::Value], weigh: impl Fn(f64, f64) -> f64) -> f64 {
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let one = |t: &serde_json::Value| {
        weigh(number(&t["sparsity"]), number(&t["rows"]) * number(&t["cols"]))
    };
    tensors.iter().map(one).sum()
}

fn noise(count: usize) -> Vec<f32> {
    (0..count as u64)
        .map(|i| (i.wrapping_mul(6364136223846793005) >> 40) as f32 / 8e6 - 1.0)
        .collect()
}

/// Writes a linear weight in three dtypes, a convolution, a bias, and an integer tensor.
fn write(path: &Path, spoil: bool) {
    let mut values = noise(64 * 48);
    if spoil {
        values[5] = f32::NAN;
    }
    let floats: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let halves: Vec<u8> = values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect();
    let brains: Vec<u8> = values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect();
    let view =
        |dtype, shape: &[usize], bytes| TensorView::new(dtype, shape.to_vec(), bytes).unwrap();
    let tensors = vec![
        ("a.weight", view(Dtype::F32, &[64, 48], &floats)),
        ("b.weight", view(Dtype::F16, &[64, 48], &halves)),
        ("c.weight", view(Dtype::BF16, &[64, 48], &brains)),
        ("conv.weight", view(Dtype::F32, &[32, 24, 2, 2], &floats)),
        ("a.bias", view(Dtype::F32, &[64], &floats[..256])),
        ("steps", view(Dtype::I64, &[2, 2], &floats[..32])),
    ];
    let metadata = [("format".to_string(), "pt".to_string())].into();
    std::fs::write(path, safetensors::serialize(tensors, Some(metadata)).unwrap()).unwrap();
}

#[test]
fn float_weights_of_every_type_are_pruned_and_all_else_stays_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(&folder.join("in.safetensors"), false);
    for pattern in ["shfl-bw(vector=16)", "balanced(block=8)", "n-of-m(keep=1,of=4)"] {
        let mut arguments = vec![
            "prune",
            "in.safetensors",
            "--pattern",
            pattern,
            "--out",
            "out.safetensors",
            "--json",
        ];
        if !pattern.starts_with("n-of-m") {
            arguments.extend(["--sparsity", "0.75"]);
        }
        let report = json(folder, &arguments);
        let tensors = report["tensors"].as_array().unwrap();
        assert_eq!(tensors.len(), 4, "{pattern}");
        for tensor in tensors {
            assert_eq!(tensor["sparsity"], 0.75);
            let (l1, l2) = (&tensor["retained_l1"], &tensor["retained_l2"]);
            assert!(l1.as_f64().unwrap() > 0.25 && l2.as_f64() > l1.as_f64(), "{tensor}");
        }
        let conv = tensors.iter().find(|tensor| tensor["name"] == "conv.weight").unwrap();
        assert_eq!((&conv["rows"], &conv["cols"]), (&32.into(), &96.into()));

        let (before, after) = ["in", "out"]
            .map(|name| std::fs::read(folder.join(format!("{name}.safetensors"))).unwrap())
            .into();
        let (before, after) =
            (SafeTensors::deserialize(&before).unwrap(), SafeTensors::deserialize(&after).unwrap());
        for (name, old) in before.tensors() {
            let new = after.tensor(&name).unwrap();
            assert_eq!((old.dtype(), old.shape()), (new.dtype(), new.shape()));
            if !name.ends_with("weight") {
                assert_eq!(old.data(), new.data(), "{name}");
                continue;
            }
            let width = old.dtype().bitsize() / 8;
            let (mut zeros, mut all) = (0, 0);
            for (old, new) in old.data().chunks(width).zip(new.data().chunks(width)) {
                let dropped = new.iter().all(|byte| *byte == 0);
                assert!(dropped || old == new, "{name}");
                (zeros, all) = (zeros + usize::from(dropped), all + 1);
            }
            assert_eq!(4 * zeros, 3 * all, "{name}");
        }
    }
}

#[test]
fn the_layout_says_which_axis_holds_the_outputs() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("in.safetensors"), false);
    for (layout, rows, cols) in [("pytorch", 64, 48), ("burn", 48, 64)] {
        let report = json(
            folder.path(),
            &[
                "prune",
                "in.safetensors",
                "--pattern",
                "vector-wise(vector=16)",
                "--sparsity",
                "0.5",
                "--include",
                "a.*",
                "--layout",
                layout,
                "--out",
                "out.safetensors",
                "--json",
            ],
        );
        let tensors = report["tensors"].as_array().unwrap();
        assert_eq!(tensors.len(), 1);
        assert_eq!((&tensors[0]["rows"], &tensors[0]["cols"]), (&rows.into(), &cols.into()));
    }
}

#[test]
fn what_cannot_be_pruned_is_refused_and_leaves_an_older_output() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(&folder.join("in.safetensors"), false);
    write(&folder.join("nan.safetensors"), true);
    let whole = std::fs::read(folder.join("in.safetensors")).unwrap();
    std::fs::write(folder.join("cut.safetensors"), &whole[..whole.len() - 9]).unwrap();
    std::fs::write(folder.join("tiny.safetensors"), [1, 2, 3]).unwrap();
    let mut claims = whole.clone();
    claims[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    std::fs::write(folder.join("claims.safetensors"), claims).unwrap();
    std::fs::write(folder.join("out.safetensors"), b"old").unwrap();
    let balanced = ["--pattern", "balanced(block=8)", "--sparsity", "0.75"];
    for (file, more, hints) in [
        ("nan.safetensors", &balanced[..], vec!["tensor a.weight", "row 0, column 5 is NaN"]),
        ("cut.safetensors", &balanced, vec!["cut.safetensors is not a complete safetensors file"]),
        (
            "tiny.safetensors",
            &balanced,
            vec!["tiny.safetensors is not a complete safetensors file"],
        ),
        ("claims.safetensors", &balanced, vec!["the header claims 18446744073709551615 bytes"]),
        ("no.safetensors", &balanced, vec!["cannot read no.safetensors"]),
        (
            "in.safetensors",
            &[&balanced[..], &["--include", "q*"]].concat(),
            vec!["matches q*", "a.weight", "b.weight", "c.weight", "conv.weight"],
        ),
        ("in.safetensors", &[&balanced[..3], &["0.99"]].concat(), vec!["keeps 0 of 8"]),
        ("in.safetensors", &[&balanced[..3], &["75"]].concat(), vec!["sparsity is 75"]),
        (
            "in.safetensors",
            &[&balanced[..3], &["75", "--distribution", "erdos-renyi"]].concat(),
            vec!["sparsity is 75", "0.75 is 75 %"],
        ),
        (
            "in.safetensors",
            &[&balanced[..3], &["NaN", "--distribution", "erdos-renyi"]].concat(),
            vec!["sparsity is NaN"],
        ),
    ] {
        let arguments = [&["prune", file, "--out", "out.safetensors"], more].concat();
        assert_refused(&run(folder, &arguments), &hints);
        assert_eq!(std::fs::read(folder.join("out.safetensors")).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 6, "no temporary file is left");
    }
}

/// Writes two layers of the same shape, one with weights 100 times as large, and a wider third layer.
fn write_uneven(path: &Path) {
    let bytes = |values: Vec<f32>| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let weak = bytes(noise(64 * 64));
    let strong = bytes(noise(64 * 64).iter().map(|value| 100.0 * value).collect());
    let wide = bytes(noise(64 * 256));
    let view = |shape: &[usize], bytes| TensorView::new(Dtype::F32, shape.to_vec(), bytes).unwrap();
    let tensors = vec![
        ("strong", view(&[64, 64], &strong)),
        ("weak", view(&[64, 64], &weak)),
        ("wide", view(&[64, 256], &wide)),
    ];
    std::fs::write(path, safetensors::serialize(tensors, None).unwrap()).unwrap();
}

#[test]
fn a_distribution_spreads_the_sparsity_and_keeps_its_mean() {
    let folder = tempfile::tempdir().unwrap();
    write_uneven(&folder.path().join("in.safetensors"));
    let elements = (64 * 64 + 64 * 64 + 64 * 256) as f64;
    for pattern in
        ["unstructured", "shfl-bw(vector=16)", "balanced(block=64)", "block-wise(block=4)"]
    {
        let spread = |name: &str, more: &[&str]| {
            let arguments = [&["--sparsity", "0.5", "--distribution", name], more].concat();
            let tensors = prune(folder.path(), pattern, &arguments);
            let mean = sum(&tensors, |sparsity, size| sparsity * size) / elements;
            assert!((mean - 0.5).abs() < 0.01, "{pattern} {name}: {mean}");
            let by_name = |name: &str| {
                let found = tensors.iter().find(|tensor| tensor["name"] == name).unwrap();
                found["sparsity"].as_f64().unwrap()
            };
            ["strong", "weak", "wide"].map(by_name)
        };
        let uniform = spread("uniform", &[]);
        assert!(uniform.iter().all(|sparsity| (sparsity - 0.5).abs() < 0.01), "{uniform:?}");
        let by_shape = spread("erdos-renyi", &[]);
        assert!(
            (by_shape[0] - by_shape[1]).abs() < 1e-9 && by_shape[2] > by_shape[0],
            "{by_shape:?}"
        );
        assert_eq!(spread("erdos-renyi-kernel", &[]), by_shape, "the same where no kernels are");
        // With one global threshold the strong layer keeps almost everything, and the cap protects the weak ones.
        let [strong, weak, _] = spread("global", &[]);
        assert!(strong < 0.05 && weak > 0.55, "{strong} {weak}");
        let capped = spread("global", &["--cap", "0.52"]);
        assert!(capped.iter().all(|sparsity| *sparsity <= 0.521), "{capped:?}");
    }
}

#[test]
fn a_budget_never_keeps_less_and_is_spent() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("in.safetensors"), false);
    let search = |more: &[&str]| {
        let arguments = [&["--sparsity", "0.75", "--include", "a.*"], more].concat();
        prune(folder.path(), "shfl-bw(vector=16)", &arguments).remove(0)
    };
    let (plain, longer) = (search(&[]), search(&["--budget", "0.4s"]));
    assert!(longer["retained_l1"].as_f64() >= plain["retained_l1"].as_f64(), "{plain} {longer}");
    let seconds = longer["seconds"].as_f64().unwrap();
    assert!(seconds > 0.3 && seconds < 10.0, "{seconds}");
}

#[test]
fn an_option_that_cannot_mean_anything_is_bad_usage() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("in.safetensors"), false);
    let prune = ["prune", "in.safetensors", "--out", "out.safetensors", "--pattern"];
    for (more, hint) in [
        (
            &["unstructured", "--sparsity", "0.5", "--distribution", "even"][..],
            "erdos-renyi-kernel",
        ),
        (&["n-of-m(keep=2,of=4)", "--distribution", "global"], "fixes every sparsity"),
        (
            &["unstructured", "--sparsity", "0.9", "--distribution", "global", "--cap", "0.8"],
            "0.9 or more",
        ),
        (&["shfl-bw", "--sparsity", "0.5", "--budget", "soon"], "as in 30s or 2m"),
        (&["shfl-bw", "--sparsity", "0.5", "--budget=-3s"], "as in 30s or 2m"),
        (&["n-of-m(keep=2,of=4)", "--sparsity", "0.75"], "leave it out"),
        (&["shfl-bw"], "--sparsity is missing"),
        (&["shfl-bw", "--sparsity", "0", "--cap", "0.9"], "--cap is for"),
    ] {
        let output = run(folder.path(), &[&prune[..], more].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {stderr}");
        assert!(stderr.contains(hint), "{more:?}: {stderr}");
        assert!(!folder.path().join("out.safetensors").exists());
    }
}

#[test]
fn masks_are_drawn_as_stored_and_in_row_order_or_the_reason_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    train(folder, "run", &["train.prune_epochs=1", "prune.end=\"0.5 epochs\""]);
    assert!(run(folder, &["inspect", "run", "--plot", "masks.svg"]).status.success());
    let picture = std::fs::read_to_string(folder.join("masks.svg")).unwrap();
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>"));
    // Two packed weights, with two panels each and one bar per group.
    assert_eq!(picture.matches("data:image/png;base64,").count(), 4);
    for (name, cols) in [("fc1.weight: 256 x 784", 784), ("fc2.weight: 256 x 256", 256)] {
        assert!(picture.contains(name));
        assert!(picture.contains(&format!("kept of {cols}, by group")));
    }
    let frames = 2 + 4 + 1;
    assert_eq!(picture.matches("<rect ").count(), frames + 2 * 256 / 32);

    let export = ["export", "run", "--format", "dense", "--out", "dense.safetensors"];
    assert!(run(folder, &export).status.success());
    let dense = run(folder, &["inspect", "dense.safetensors", "--plot", "dense.svg"]);
    assert_refused(&dense, &["no packed weight to draw"]);
    let nowhere = run(folder, &["inspect", "run", "--plot", "no/where.svg"]);
    assert_refused(&nowhere, &["cannot write no/where.svg"]);
}

#[test]
fn on_trained_weights_freer_patterns_keep_more() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    train(folder, "run", &["prune.sparsity=0.01", "prune.end=\"0.5 epochs\""]);
    let export = ["export", "run", "--format", "dense", "--layout", "pytorch"];
    let export = [&export[..], &["--out", "in.safetensors"]].concat();
    assert!(run(folder, &export).status.success());
    for sparsity in ["0.5", "0.75", "0.9"] {
        let kept = |pattern: &str| {
            let tensors = prune(folder, pattern, &["--sparsity", sparsity, "--include", "fc*"]);
            assert_eq!(tensors.len(), 2);
            [0, 1].map(|tensor| tensors[tensor]["retained_l1"].as_f64().unwrap())
        };
        let order = ["unstructured", "shfl-bw", "vector-wise", "block-wise"].map(kept);
        for pair in order.windows(2) {
            for (freer, stricter) in pair[0].iter().zip(&pair[1]) {
                assert!(freer >= stricter, "{sparsity}: {order:?}");
            }
        }
    }
}
