//! Charts of a report.

use super::chart::{Axis, Chart, Numbers, Point, Series};
use super::markdown::{metric_name, sparsity, value};
use super::{Row, Run};
use crate::Metric;
use crate::run::Phase;
use burn_sparse::calibrate::CalibratedWeight;

/// Plots the metric against sparsity, with a line for every method and pattern.
pub(super) fn by_sparsity(rows: &[Row]) -> Chart {
    let point = |row: &Row| Point {
        x: row.sparsity,
        y: row.mean(),
        range: (row.values.len() > 1).then(|| row.range()),
        says: format!("{} at {}", value(row), sparsity(row)),
    };
    Chart {
        title: format!("{} against sparsity", metric_name(rows)),
        x: Axis { name: "sparsity".into(), written: Box::new(percent) },
        y: written(&rows[0].metric),
        series: series(rows, point),
        level: dense(rows),
    }
}

/// Plots the metric against the latency of the sparse model at this batch size.
pub(super) fn by_latency(rows: &[Row], batch: usize) -> Chart {
    let micros = |row: &Row| {
        let found = row.latency().iter().find(|latency| latency.batch == batch);
        found.map(|found| found.sparse_us)
    };
    let point = |row: &Row| Point {
        x: micros(row).map_or(f64::NAN, |micros| micros / 1e3),
        y: row.mean(),
        range: (row.values.len() > 1).then(|| row.range()),
        says: format!(
            "{} at {} in {:.3} ms",
            value(row),
            sparsity(row),
            micros(row).unwrap_or(f64::NAN) / 1e3
        ),
    };
    Chart {
        title: format!("{} against time, batch {batch}", metric_name(rows)),
        x: Axis { name: "milliseconds".into(), written: Box::new(|value| format!("{value:.3}")) },
        y: written(&rows[0].metric),
        series: series(rows, point),
        level: dense(rows),
    }
}

/// Builds a line for every method and pattern: patterns differ in color, methods in how they are drawn.
fn series(rows: &[Row], point: impl Fn(&Row) -> Point) -> Vec<Series> {
    let (mut patterns, mut methods): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut series: Vec<Series> = Vec::new();
    for row in rows.iter().filter(|row| !row.is_dense()) {
        let style = place(&mut patterns, &row.pattern);
        let variant = place(&mut methods, &row.method);
        let same = |series: &&mut Series| (series.style, series.variant) == (style, variant);
        match series.iter_mut().find(same) {
            Some(series) => series.points.push(point(row)),
            None => {
                let name = match row.method.as_str() {
                    "" => row.pattern.clone(),
                    method => format!("{method}, {}", row.pattern),
                };
                series.push(Series { name, style, variant, points: vec![point(row)] });
            }
        }
    }
    series
}

/// Returns the index of a name among those seen so far, adding it if it is new.
fn place<'a>(seen: &mut Vec<&'a str>, name: &'a str) -> usize {
    seen.iter().position(|old| *old == name).unwrap_or_else(|| {
        seen.push(name);
        seen.len() - 1
    })
}

/// Returns the mean metric of the dense runs, if there are any.
fn dense(rows: &[Row]) -> Option<f64> {
    rows.iter().find(|row| row.is_dense()).map(Row::mean)
}

fn written(metric: &str) -> Numbers {
    let metric = metric.to_string();
    Box::new(move |value| Metric::written(&metric, value))
}

/// Formats a share that a tick marks, with the decimals that it needs.
fn percent(share: f64) -> String {
    let share = 100.0 * share;
    let is_exact = |&decimals: &i32| {
        let scaled = share * 10_f64.powi(decimals);
        (scaled - scaled.round()).abs() < 1e-6
    };
    let decimals = (0..4).find(is_exact).unwrap_or(4);
    format!("{share:.*} %", decimals as usize)
}

/// Plots the metric after every epoch of both phases.
pub(super) fn by_epoch(run: &Run) -> Chart {
    let phase = |phase: Phase| {
        let epochs = run.epochs.iter().enumerate().filter(move |(_, epoch)| epoch.phase == phase);
        epochs.map(|(at, epoch)| Point {
            x: (at + 1) as f64,
            y: epoch.value,
            range: None,
            says: format!(
                "epoch {}: {}, loss {:.4}",
                epoch.epoch,
                Metric::written(&run.metric.name, epoch.value),
                epoch.loss
            ),
        })
    };
    let named = [("dense", Phase::Dense), ("under masks", Phase::Prune)];
    let series = named.into_iter().enumerate().map(|(style, (name, of))| Series {
        name: name.into(),
        style,
        variant: 0,
        points: phase(of).collect(),
    });
    Chart {
        title: format!("{} by epoch", run.metric.name.replace('_', " ")),
        x: Axis { name: "epoch".into(), written: Box::new(|epoch| format!("{epoch:.0}")) },
        y: written(&run.metric.name),
        series: series.filter(|series| !series.points.is_empty()).collect(),
        level: run.dense_metric.as_ref().map(|metric| metric.value),
    }
}

/// Plots the relative error of every calibrated layer's outputs, with the mask alone and repaired.
pub(super) fn by_layer(run: &Run) -> Chart {
    let line = |style: usize, name: &str, error: fn(&CalibratedWeight) -> f64| Series {
        name: name.into(),
        style,
        variant: 0,
        points: run
            .calibration
            .iter()
            .enumerate()
            .map(|(at, weight)| Point {
                x: (at + 1) as f64,
                y: error(weight),
                range: None,
                says: format!("{}: {:.1} %, {name}", weight.name, 100.0 * error(weight)),
            })
            .collect(),
    };
    Chart {
        title: "Error of the layers' outputs".into(),
        x: Axis { name: "layer".into(), written: Box::new(|layer| format!("{layer:.0}")) },
        y: Box::new(percent),
        series: vec![
            line(0, "with the mask", |weight| weight.error_masked),
            line(1, "repaired", |weight| weight.error),
        ],
        level: None,
    }
}

/// Plots the sparsity after every epoch.
pub(super) fn ramp(run: &Run) -> Chart {
    let points = run.epochs.iter().enumerate().map(|(at, epoch)| Point {
        x: (at + 1) as f64,
        y: epoch.sparsity,
        range: None,
        says: format!(
            "epoch {}: {:.2} % zeros, {:.2} % of the masks changed",
            epoch.epoch,
            100.0 * epoch.sparsity,
            100.0 * epoch.mask_changed
        ),
    });
    Chart {
        title: "The ramp".into(),
        x: Axis { name: "epoch".into(), written: Box::new(|epoch| format!("{epoch:.0}")) },
        y: Box::new(percent),
        series: vec![Series {
            name: "sparsity".into(),
            style: 0,
            variant: 0,
            points: points.collect(),
        }],
        level: None,
    }
}
