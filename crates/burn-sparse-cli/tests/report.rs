//! Tests of `burn-sparse report` for a run, a sweep, and a folder without runs, and of the page in a browser.

mod support;

use std::path::Path;
use std::process::Command;

use support::{assert_refused, json, recipe, run};

/// Runs a sweep of two patterns, two sparsities and two seeds in `grid`.
fn sweep(folder: &Path) {
    recipe(folder, "prune_epochs = 2", "prune_epochs = 1");
    let patterns = "balanced(block=16),shfl-bw(vector=16)";
    let arguments = ["--patterns", patterns, "--sparsities", "0.5,0.75", "--run-dir", "grid"];
    json(folder, &[&["sweep", "recipe.toml", "--seeds", "2", "--json"], &arguments[..]].concat());
}

#[test]
fn a_sweep_becomes_one_file_that_needs_nothing_else_and_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    sweep(folder);
    let done = run(folder, &["report", "grid", "--out", "page.html", "--batch", "1,8"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let table = String::from_utf8(done.stdout).unwrap();
    let heading =
        "| pattern | sparsity | accuracy | seeds | faster at batch 1 | faster at batch 8 |";
    assert!(table.starts_with(heading), "{table}");
    assert_eq!(table.lines().filter(|line| line.starts_with("| ")).count(), 2 + 5, "{table}");
    assert!(table.contains("| balanced(block=16) | 50.0 % | "), "{table}");

    let page = std::fs::read_to_string(folder.join("page.html")).unwrap();
    let wanted =
        ["accuracy against sparsity", "accuracy against time, batch 8", "The ramp", "Masks"];
    for wanted in wanted.into_iter().chain(["fc1.weight", "shfl-bw(vector=16)-0.75"]) {
        assert!(page.contains(wanted), "{wanted}");
    }
    for foreign in ["src=\"", "<script", "<link", "url(", "@import"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let report = json(folder, &["report", "grid", "--batch", "0", "--json"]);
    assert_eq!(report["rows"].as_array().unwrap().len(), 5);
    assert_eq!(report["rows"][1]["values"].as_array().unwrap().len(), 2);
    assert!(report["rows"][1].get("rounded").is_none());
    assert!(folder.join("grid/report.html").is_file());
}

#[test]
fn a_report_in_8_bits_says_what_pruning_and_what_rounding_costs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    sweep(folder);
    let in_8 = ["report", "grid", "--values", "w8a8"];
    let done = run(folder, &[&in_8[..], &["--batch", "8"]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let table = String::from_utf8(done.stdout).unwrap();
    let heading = "| pattern | sparsity | accuracy | in w8a8 | seeds | faster at batch 8 |";
    assert!(table.starts_with(heading), "{table}");
    let page = std::fs::read_to_string(folder.join("grid/report.html")).unwrap();
    for wanted in ["<th class=\"n\">in w8a8</th>", "times are in w8a8", "-int8-"] {
        assert!(page.contains(wanted), "{wanted}");
    }

    let report = json(folder, &[&in_8[..], &["--batch", "0", "--json"]].concat());
    assert_eq!(report["values"], "w8a8");
    for row in report["rows"].as_array().unwrap() {
        let values = |of: &str| -> Vec<f64> {
            row[of].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
        };
        let (stored, rounded) = (values("values"), values("rounded"));
        assert_eq!(stored.len(), rounded.len());
        for (stored, rounded) in stored.iter().zip(rounded) {
            assert!((stored - rounded).abs() < 0.05, "{stored} {rounded}");
        }
    }
    assert_refused(
        &run(folder, &[&in_8[..], &["--device", "wgpu:7"]].concat()),
        &["--device wgpu:7"],
    );
}

#[test]
fn a_run_is_reported_and_what_is_no_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let nothing = "holds no finished run, nor does any folder below it";
    assert_refused(&run(folder, &["report", "."]), &[nothing]);
    assert_refused(&run(folder, &["report", "none"]), &["none", "No such file"]);

    recipe(folder, "", "");
    json(folder, &["train", "recipe.toml", "--run-dir", "run", "--json"]);
    let report = json(folder, &["report", "run", "--batch", "4", "--json"]);
    let row = &report["rows"][0];
    assert_eq!(row["latency"][0]["batch"], 4);
    assert!(row["latency"][0]["dense_us"].as_f64().unwrap() > 0.0);
    assert_eq!(row["layers"].as_array().unwrap().len(), 3);
    assert_eq!(row["alone"].as_array().unwrap().len(), 2);

    // The same run, relabelled as one of another task.
    let bytes = std::fs::read(folder.join("run/checkpoint.safetensors")).unwrap();
    let (from, to) = (br#"task = \"glyphs-mlp\""#, br#"task = \"mnist-mlp\" "#);
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    let other = [&bytes[..at], to, &bytes[at + from.len()..]].concat();
    std::fs::create_dir_all(folder.join("both/a")).unwrap();
    std::fs::create_dir_all(folder.join("both/b")).unwrap();
    std::fs::write(folder.join("both/a/checkpoint.safetensors"), &bytes).unwrap();
    std::fs::write(folder.join("both/b/checkpoint.safetensors"), other).unwrap();
    let hints = ["several tasks", "a is glyphs-mlp", "b is mnist-mlp"];
    assert_refused(&run(folder, &["report", "both"]), &hints);

    std::fs::write(folder.join("run/checkpoint.safetensors"), b"no checkpoint").unwrap();
    assert_refused(&run(folder, &["report", "run"]), &["checkpoint.safetensors"]);
}

/// Returns what Chromium computes for a page shown 390 pixels wide: its scroll width, its background color, its text
/// color, and the number of figures taller than 50 pixels.
fn shown(browser: &str, page: &Path, dark: bool) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let content = std::fs::read_to_string(page).unwrap();
    let content = content.replace('&', "&amp;").replace('"', "&quot;");
    let frame = folder.path().join("frame.html");
    let script = "const page = f.contentDocument; \
                  const style = f.contentWindow.getComputedStyle(page.body); \
                  const drawn = [...page.querySelectorAll('figure > svg')] \
                      .filter(svg => svg.getBoundingClientRect().height > 50).length; \
                  document.body.textContent = ['found', page.documentElement.scrollWidth, \
                      style.backgroundColor, style.color, drawn, 'end'].join('|');";
    let html = format!(
        "<!doctype html><body><iframe id=\"f\" width=\"390\" height=\"800\" frameborder=\"0\" \
         onload=\"{script}\" srcdoc=\"{content}\"></iframe></body>"
    );
    std::fs::write(&frame, html).unwrap();
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--virtual-time-budget=10000",
        "--dump-dom",
    ]);
    if dark {
        command.args(["--blink-settings=preferredColorScheme=0"]);
    }
    command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    let dom = command.arg(format!("file://{}", frame.display())).output().unwrap();
    let dom = String::from_utf8_lossy(&dom.stdout).to_string();
    let found = dom.split("found|").nth(1).and_then(|rest| rest.split("|end").next());
    let found = found.unwrap_or_else(|| panic!("the page did not load: {dom}"));
    found.split('|').map(String::from).collect()
}

#[test]
#[ignore = "needs Chromium"]
fn a_browser_shows_it_on_a_phone_by_day_and_by_night() {
    let browser = std::env::var("CHROMIUM").expect("CHROMIUM names the browser");
    let folder = tempfile::tempdir().unwrap();
    sweep(folder.path());
    json(folder.path(), &["report", "grid", "--batch", "1,8", "--json"]);
    let page = folder.path().join("grid/report.html");
    let (day, night) = (shown(&browser, &page, false), shown(&browser, &page, true));
    for found in [&day, &night] {
        // A scroll bar takes up some of the width.
        let width: usize = found[0].parse().unwrap();
        assert!((300..=390).contains(&width), "wider than the phone: {found:?}");
    }
    assert_eq!(day[1], "rgb(255, 255, 255)", "{day:?}");
    assert_ne!(day[1], night[1], "{night:?}");
    assert_ne!(day[2], night[2], "{night:?}");
    // Accuracy against sparsity (1) and against time (2), epochs of five runs, and four ramps.
    assert_eq!(day[3], "12", "{day:?}");
}
