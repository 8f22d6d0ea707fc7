//! Output: progress on standard error, results on standard output.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use burn_sparse::calibrate::{CalibratedBlock, CalibratedWeight, CalibrationStep};
use burn_sparse::measure::{LayerReport, Predicted};
use burn_sparse::nn::KernelInput;
use burn_sparse_run::Metric;
use burn_sparse_run::run::{EpochReport, Observer, Phase, StepTimes, StepTraffic};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failpoint::{self, Action};

/// Prints a line on standard error. A closed standard error must not stop a training run.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Quotes a word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,".contains(letter);
    if word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Checks that a file can be written to `path`, before the work whose result it is to hold.
pub(crate) fn writable(path: &Path) -> Result<(), String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.is_dir()) {
        Some(folder) => {
            Err(format!("cannot write {}: there is no folder {}", path.display(), folder.display()))
        }
        None if path.is_dir() => Err(format!("cannot write {}: it is a folder", path.display())),
        None => Ok(()),
    }
}

/// Set by Ctrl-C.
fn interrupted() -> &'static Arc<AtomicBool> {
    static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    INTERRUPTED.get_or_init(Arc::default)
}

/// Shows the progress of a run: a bar on a terminal, and one line per epoch.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// `true` if the bar is drawn, from the first step on.
    draws: bool,
    epochs: bool,
    /// Last line about a step, where there is no bar.
    told: Instant,
}

/// Time between two lines about steps, where there is no bar.
const QUIET: Duration = Duration::from_secs(30);

impl Progress {
    /// Shows the progress of many runs, without a line per epoch.
    pub(crate) fn of_many() -> Self {
        let mut progress = Self::new();
        progress.epochs = false;
        progress
    }

    /// Shows the progress of a run that several ranks train together, on rank 0.
    pub(crate) fn of_rank(rank: usize) -> Self {
        let mut progress = Self::new();
        progress.draws &= rank == 0;
        progress.epochs = rank == 0;
        progress
    }

    /// Returns a function that prints lines above the bar.
    pub(crate) fn lines(&self) -> impl Fn(&str) + use<> {
        let bar = self.bar.clone();
        move |line| bar.suspend(|| note(line))
    }

    /// Shows the progress of a run. Ctrl-C, or the SIGTERM that schedulers and `mpirun` send, stops it resumably; a second Ctrl-C
    /// ends the program at once.
    pub(crate) fn new() -> Self {
        let handled = flag::register_conditional_shutdown(SIGINT, 1, interrupted().clone())
            .and_then(|_| flag::register(SIGINT, interrupted().clone()))
            .and_then(|_| flag::register(SIGTERM, interrupted().clone()));
        if let Err(error) = handled {
            tracing::warn!(%error, "Ctrl-C will not leave a resumable run");
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
        let style = "{prefix} {bar:32} step {pos}/{len}, loss {msg}, {elapsed} (left {eta})";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        let draws = std::io::stderr().is_terminal();
        Self { bar, draws, epochs: true, told: Instant::now() }
    }
}

impl Observer for Progress {
    fn step(&mut self, phase: Phase, epoch: usize, step: usize, steps: usize, loss: f64) {
        if self.bar.length() != Some(steps as u64) || step == 1 {
            self.bar.reset();
            self.bar.set_length(steps as u64);
            self.bar.set_prefix(format!("{} epoch {epoch}", phase.name()));
            if self.draws {
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
        }
        match failpoint::at(phase.name(), epoch, step) {
            Some(Action::Abort) => std::process::abort(),
            Some(Action::Interrupt) => interrupted().store(true, Ordering::SeqCst),
            None => {}
        }
        self.bar.set_position(step as u64);
        self.bar.set_message(format!("{loss:.4}"));
        if !self.draws && self.epochs && self.told.elapsed() > QUIET {
            self.told = Instant::now();
            note(&format!(
                "{:5} epoch {epoch:>2}  step {step}/{steps}  loss {loss:.4}",
                phase.name()
            ));
        }
    }

    fn calibrated(&mut self, step: CalibrationStep<'_>) {
        if self.epochs {
            self.lines()(&calibrated(step));
        }
    }

    fn epoch(&mut self, report: &EpochReport) {
        if !self.epochs {
            return;
        }
        let mut line = format!(
            "{:5} epoch {:>2}/{}  loss {:.4}  {}",
            report.phase.name(),
            report.epoch,
            report.epochs,
            report.loss,
            Metric { name: report.metric.clone(), value: report.value },
        );
        if report.phase == Phase::Prune {
            let patterns: Vec<String> = report
                .patterns
                .iter()
                .map(|(pattern, sparsity)| format!("{pattern} {:.2} %", 100.0 * sparsity))
                .collect();
            line += &format!(
                "  {}  masks changed {:.2} % in {:.2} s",
                patterns.join(", "),
                100.0 * report.mask_changed,
                report.mask_seconds,
            );
        }
        line += &format!("  {:.1} s{}", report.seconds, steps(report));
        self.lines()(&line);
    }

    fn interrupted(&self) -> bool {
        interrupted().load(Ordering::SeqCst)
    }
}

/// Formats a step of a calibration.
pub(crate) fn calibrated(step: CalibrationStep<'_>) -> String {
    match step {
        CalibrationStep::Weight(CalibratedWeight {
            name,
            sparsity,
            error_masked,
            error,
            seconds,
            ..
        }) => {
            let masked = match *sparsity > 0.0 {
                true => format!(
                    "{:.1} % with the mask, {:.1} % now",
                    100.0 * error_masked,
                    100.0 * error
                ),
                false => format!("{:.1} % rounded", 100.0 * error),
            };
            format!("{name}: error of the outputs {masked}, {seconds:.2} s")
        }
        CalibrationStep::Block(CalibratedBlock { block, error_before, error, seconds, .. }) => {
            format!(
                "block {block}: error of the output {:.1} %, {:.1} % reconstructed, {seconds:.2} s",
                100.0 * error_before,
                100.0 * error
            )
        }
        _ => String::new(),
    }
}

/// Formats the seconds per step and the memory of training.
fn steps(report: &EpochReport) -> String {
    let form = |name: &str, seconds: Option<f64>| {
        seconds.map(|seconds| format!("{:.1} ms per {name}step", 1e3 * seconds))
    };
    let StepTimes { masked, packed, masked_traffic, packed_traffic } = report.steps;
    let masked_name = if packed.is_some() { "masked " } else { "" };
    let times = [form(masked_name, masked), form("packed ", packed)];
    let mut times: Vec<String> = times.into_iter().flatten().collect();
    if let Some(StepTraffic { bytes, share }) = packed_traffic.or(masked_traffic) {
        let (ranks, megabytes) = (report.ranks, bytes / 1e6);
        let share = 100.0 * share;
        times.push(format!("{ranks} ranks: {megabytes:.2} MB per step, {share:.0} % of its time"));
    }
    if report.trained_bytes > 0 {
        times.push(format!("{:.0} MB trained", report.trained_bytes as f64 / 1e6));
    }
    if times.is_empty() { String::new() } else { format!(" ({})", times.join(", ")) }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Prints one JSON object, or nothing at all.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<(), Box<dyn std::error::Error>> {
    let text = serde_json::to_string_pretty(value)?;
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}

/// Returns `true` if an error only means that standard output was closed.
pub(crate) fn is_closed_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Prints text.
pub(crate) fn text(text: &str) -> Result<(), Box<dyn std::error::Error>> {
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}

/// The widest column of a table.
const WIDEST: usize = 120;

/// Formats rows of equal width, with the first one as a heading and numbers right-aligned.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    // A cell may be a name from a file, of any length: one longer than `WIDEST` overflows its column.
    let widths: Vec<usize> =
        (0..columns).map(|column| width(column).unwrap_or(0).min(WIDEST)).collect();
    let line = |row: &Vec<String>| {
        let cell = |(column, cell): (usize, &String)| {
            let number = cell.starts_with(|first: char| first.is_ascii_digit());
            let width = widths[column];
            if number { format!("{cell:>width$}") } else { format!("{cell:width$}") }
        };
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        cells.join("  ").trim_end().to_string()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Formats layers as a table. Layers that differ only in a number in their names, such as those of equal blocks, share a row.
pub(crate) fn layers(layers: &[LayerReport]) -> String {
    let mut groups: Vec<([String; 6], Vec<&LayerReport>)> = Vec::new();
    for layer in layers {
        let cells = [
            numbered(&layer.name),
            format!("{} x {}", layer.rows, layer.cols),
            layer.pattern.clone(),
            format!("{:.2} %", 100.0 * layer.sparsity),
            layer.kernel.clone(),
            prediction(layer.predicted, layer.input),
        ];
        match groups.iter_mut().find(|(others, _)| *others == cells) {
            Some((_, members)) => members.push(layer),
            None => groups.push((cells, vec![layer])),
        }
    }
    let heading = ["layer", "rows x cols", "pattern", "sparsity", "mask", "kernel", "because"];
    let mut rows = vec![heading.map(String::from).to_vec()];
    rows.extend(groups.into_iter().map(|(cells, members)| {
        let [mut name, shape, pattern, sparsity, kernel, because] = cells;
        let mask = match members[..] {
            [layer] => {
                name.clone_from(&layer.name);
                layer.mask_hash.clone().unwrap_or("-".into())
            }
            _ => {
                let masks = members.iter().filter(|layer| layer.mask_hash.is_some()).count();
                name += &format!(" ({})", members.len());
                if masks > 0 { format!("{masks} masks") } else { "-".into() }
            }
        };
        vec![name, shape, pattern, sparsity, mask, kernel, because]
    }));
    table(&rows)
}

/// Returns a path with `*` in place of the numbers between its dots.
fn numbered(name: &str) -> String {
    let part = |part| match str::parse::<usize>(part) {
        Ok(_) => "*",
        Err(_) => part,
    };
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// Formats the predicted times behind a choice of kernel, for this input.
pub(crate) fn prediction(predicted: Option<Predicted>, input: Option<KernelInput>) -> String {
    let of = match input {
        Some(KernelInput::Tokens(tokens)) => format!(" for {tokens} tokens"),
        Some(KernelInput::Pictures { shape: [pictures, ..], .. }) => {
            format!(" for {pictures} images")
        }
        None => String::new(),
    };
    predicted.map_or("-".into(), |Predicted { sparse_us, dense_us }| {
        format!("{sparse_us:.0} us expected{of}, dense {dense_us:.0} us")
    })
}

/// `1 min 12 s`.
pub(crate) fn duration(seconds: f64) -> String {
    let seconds = Duration::from_secs_f64(seconds.max(0.0)).as_secs_f64();
    // Rounded before it is split: 119.7 s are two minutes.
    let whole = seconds.round();
    if seconds < 59.95 {
        format!("{seconds:.1} s")
    } else {
        format!("{:.0} min {:.0} s", (whole / 60.0).floor(), whole % 60.0)
    }
}
