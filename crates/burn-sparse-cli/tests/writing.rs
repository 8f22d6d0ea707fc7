//! A failed write leaves the old file unchanged and reports one clear error.
#![cfg(unix)]

mod support;

use std::path::Path;
use std::process::Command;

use support::{assert_refused, command, run, train};

const EXPORT: [&str; 6] = ["export", "run", "--format", "dense", "--out", "out.safetensors"];

/// Creates a finished run and an older file at the export path.
fn prepare(folder: &Path) {
    train(folder, "run", &["train.prune_epochs=1", "prune.end=\"0.5 epochs\""]);
    std::fs::write(folder.join("out.safetensors"), b"old").unwrap();
}

fn files(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        names.map(|file| file.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepare(folder);
    let before = files(folder);
    // Simulates a full disk: with `ulimit -f 64`, writing a file past 64 KB fails.
    let words = EXPORT.join(" ");
    let program = env!("CARGO_BIN_EXE_burn-sparse");
    let script = format!("trap '' XFSZ; ulimit -f 64; exec {program} {words}");
    let output = Command::new("bash").args(["-c", &script]).current_dir(folder).output().unwrap();
    assert_refused(&output, &["cannot write checkpoint out.safetensors"]);
    assert_eq!(std::fs::read(folder.join("out.safetensors")).unwrap(), b"old");
    assert_eq!(files(folder), before, "no temporary file is left");
}

#[test]
fn a_folder_that_takes_no_files_is_one_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepare(folder);
    for out in ["/proc/out.safetensors", "run/recipe.toml/out.safetensors", "no/out.safetensors"] {
        let arguments = ["export", "run", "--format", "packed", "--out", out];
        assert_refused(&run(folder, &arguments), &["cannot write checkpoint", out]);
    }
}

#[test]
fn a_program_killed_at_any_moment_leaves_the_old_file_or_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepare(folder);
    assert!(
        run(folder, &["export", "run", "--format", "dense", "--out", "new.safetensors"])
            .status
            .success()
    );
    let new = std::fs::read(folder.join("new.safetensors")).unwrap();
    let mut seen = [0, 0];
    for attempt in 0..40 {
        std::fs::write(folder.join("out.safetensors"), b"old").unwrap();
        let mut child = command(folder).args(EXPORT).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_micros(400 * attempt));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = std::fs::read(folder.join("out.safetensors")).unwrap();
        assert!(found == b"old" || found == new, "{} bytes of neither", found.len());
        seen[usize::from(found == new)] += 1;
    }
    assert!(seen[0] > 0, "never early enough: {seen:?}");
}

#[test]
fn a_link_stays_one_and_its_file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepare(folder);
    let link = folder.join("link.safetensors");
    std::os::unix::fs::symlink("out.safetensors", &link).unwrap();
    let arguments = ["export", "run", "--format", "dense", "--out", "link.safetensors"];
    assert!(run(folder, &arguments).status.success());
    assert!(link.symlink_metadata().unwrap().is_symlink());
    let written = std::fs::read(folder.join("out.safetensors")).unwrap();
    assert!(written.len() > 1000 && written == std::fs::read(&link).unwrap());
}
