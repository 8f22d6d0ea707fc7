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
const DENSE: &str = "burn_sparse_dense";
const CELL: &str = "32x128";

/// Plots quality against milliseconds, on a logarithmic axis: a line for every pattern, a mark for the dense model.
pub(crate) fn minilm_patterns(results: &MiniLm, theme: &Theme) -> Result<String, Box<dyn Error>> {
    let ms = results.ms.get(CELL).ok_or(format!("no cell {CELL}"))?;
    let point = |name: &str| -> Result<(f64, f64), Box<dyn Error>> {
        Ok((*ms.get(name).ok_or(format!("no time of {name}"))?, results.mean(name)?))
    };
    let mut lines = Vec::new();
    for (name, label) in PATTERNS {
        let prefix = format!("burn_sparse_{name}-");
        let sparsity = |model: &str| model.strip_prefix(&prefix)?.parse::<u32>().ok();
        let mut models: Vec<(u32, &String)> =
            ms.keys().filter_map(|model| Some((sparsity(model)?, model))).collect();
        models.sort_unstable();
        let points = models.into_iter().map(|(_, model)| point(model));
        lines.push((label, points.collect::<Result<Vec<_>, _>>()?));
    }
    let dense = point(DENSE)?;
    let all = || lines.iter().flat_map(|(_, points)| points.iter().copied()).chain([dense]);
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
    let setting =
        "Spearman, STS-B test (best at the top); 50, 75 and 90 % sparsity along each line";
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
    mark(&mut svg, "dense", [x(dense.0), y(dense.1)], theme.ink);
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

/// Draws the model without a pattern as a square.
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
