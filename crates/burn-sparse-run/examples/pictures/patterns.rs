//! Picture of the guide: a pretrained model under every pattern.

use std::error::Error;
use std::fmt::Write;

use crate::front::MiniLm;
use crate::svg::{Theme, grid, opened, text};

/// Patterns in the order of their colours, as in the names of the models, and as they are written.
const PATTERNS: [(&str, &str); 7] = [
    ("unstructured", "unstructured"),
    ("balanced", "balanced(32)"),
    ("shfl-bw-32", "shfl-bw(32)"),
    ("shfl-bw-8", "shfl-bw(8)"),
    ("vector-wise-32", "vector-wise(32)"),
    ("block-wise-32", "block-wise(32)"),
    ("n-of-m", "2 of 4"),
];
/// Models without a pattern.
const OTHERS: [(&str, &str); 4] = [
    ("burn_sparse_dense", "Burn, dense"),
    ("burn_sparse_dense-8", "dense, 8 bits"),
    ("onnxruntime_f32", "ONNX Runtime"),
    ("onnxruntime_int8", "ONNX Runtime, int8"),
];
const CELL: &str = "32x128";

/// Plots quality against milliseconds, on a logarithmic axis: a line for every pattern, a mark for every other model.
pub(crate) fn minilm_patterns(results: &MiniLm, theme: &Theme) -> Result<String, Box<dyn Error>> {
    let ms = results.ms.get(CELL).ok_or(format!("no cell {CELL}"))?;
    let point = |name: &str| Some((*ms.get(name)?, results.mean(name).ok()?));
    let lines = PATTERNS.map(|(name, label)| {
        let prefix = format!("burn_sparse_{name}-");
        let sparsity = |model: &str| model.strip_prefix(&prefix)?.parse::<u32>().ok();
        let mut models: Vec<_> =
            ms.keys().filter_map(|model| Some((sparsity(model)?, point(model)?))).collect();
        models.sort_by_key(|&(sparsity, _)| sparsity);
        (label, models.into_iter().map(|(_, point)| point).collect::<Vec<_>>())
    });
    let others = OTHERS.map(|(name, label)| (label, point(name)));
    let all = || {
        let marks = others.iter().filter_map(|&(_, point)| point);
        lines.iter().flat_map(|(_, points)| points.iter().copied()).chain(marks)
    };
    let bounds = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    };
    let (fast, slow) = bounds(&mut all().map(|(time, _)| time.ln()));
    let (worst, best) = bounds(&mut all().map(|(_, value)| value));
    let [left, right, top, bottom] = [64.0, 690.0, 52.0, 400.0];
    let x = |time: f64| {
        left + 20.0 + (time.ln() - fast) / (slow - fast).max(1e-9) * (right - left - 140.0)
    };
    let y = |value: f64| {
        bottom - 20.0 - (value - worst) / (best - worst).max(1e-9) * (bottom - top - 40.0)
    };
    let mut svg = opened(720.0, 460.0, theme);
    text(&mut svg, left, 22.0, "font-weight=\"600\"", "MiniLM, 32 sentences of 128 tokens");
    let setting = "Spearman, STS-B test (best at the top); lines from 50 over 75 to 90 % sparsity";
    text(&mut svg, left, 40.0, "font-size=\"12\"", setting);
    for percent in 60..=90 {
        let value = f64::from(percent) / 100.0;
        if value > worst - 0.005 && value < best + 0.005 {
            grid(&mut svg, [left, y(value)], [right, y(value)], theme);
            let label = format!("{value:.2}");
            text(&mut svg, left - 6.0, y(value) + 4.0, "text-anchor=\"end\"", &label);
        }
    }
    for time in [50.0, 100.0, 200.0, 300.0, 500.0, 700.0, 1000.0, 1500.0, 2000.0, 3000.0_f64] {
        if (left..=right).contains(&x(time)) {
            grid(&mut svg, [x(time), top], [x(time), bottom], theme);
            text(&mut svg, x(time), bottom + 18.0, "text-anchor=\"middle\"", &format!("{time}"));
        }
    }
    text(&mut svg, left, bottom + 40.0, "font-size=\"12\"", &results.about.below());
    for ((label, points), colour) in lines.iter().zip(theme.series) {
        let places: Vec<[f64; 2]> = points.iter().map(|&(time, at)| [x(time), y(at)]).collect();
        line(&mut svg, label, &places, colour);
    }
    for (label, point) in others {
        if let Some((time, value)) = point {
            let colour = if label.starts_with("ONNX") { theme.peer } else { theme.ink };
            mark(&mut svg, label, [x(time), y(value)], colour);
        }
    }
    Ok(svg + "</svg>\n")
}

/// Draws the models of a pattern, with its name at the last.
fn line(svg: &mut String, label: &str, places: &[[f64; 2]], colour: &str) {
    let path: Vec<String> = places.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
    let _ = write!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
        path.join(" ")
    );
    for [x, y] in places {
        let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>");
    }
    if let Some([x, y]) = places.last() {
        let style = format!("fill=\"{colour}\" font-weight=\"600\" font-size=\"12\"");
        text(svg, x + 8.0, y + 12.0, &style, label);
    }
}

/// Draws a model without a pattern as a square.
fn mark(svg: &mut String, label: &str, [x, y]: [f64; 2], colour: &str) {
    let _ = write!(
        svg,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" fill=\"{colour}\"/>",
        x - 4.0,
        y - 4.0
    );
    let style = format!("fill=\"{colour}\" text-anchor=\"middle\" font-size=\"12\"");
    text(svg, x, y - 10.0, &style, label);
}
