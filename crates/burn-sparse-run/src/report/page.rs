use std::fmt::Write;

use burn_sparse::calibrate::CalibratedWeight;
use burn_sparse::measure::{BenchRow, plot};

use super::curves::{by_epoch, by_latency, by_layer, by_sparsity, ramp};
use super::escape::escaped;
use super::markdown::{batches, metric_name, rounded, sparsity, value};
use super::{Alone, Found, Measured, Row, Run};
use crate::run::Phase;

/// Renders the whole report as one HTML file, light or dark like the reader's system.
///
/// `values` names the type of [`Row::rounded`]; `notes` explain what is missing and why.
pub fn page(found: &Found, rows: &[Row], values: Option<&str>, notes: &[String]) -> String {
    let title = match rows {
        [only] if only.name.is_empty() => format!("{}, {}", found.runs[0].task, only.pattern),
        _ => found.runs.first().map_or(String::new(), |run| format!("{}, sweep", run.task)),
    };
    let mut body = format!("<h1>{}</h1>", escaped(&title));
    if let [row] = rows {
        let _ = write!(body, "<p class=\"lead\">{}</p>", escaped(&lead(&found.runs[row.runs[0]])));
    }
    for note in notes {
        let _ = write!(body, "<p class=\"soft\">{}</p>", escaped(note));
    }
    if rows.iter().filter(|row| !row.is_dense()).count() > 1 {
        body += "<div class=\"charts\">";
        body += &by_sparsity(rows).draw();
        for batch in batches(rows) {
            body += &by_latency(rows, batch).draw();
        }
        body += "</div>";
    }
    body += "<h2>Runs</h2>";
    body += &table(rows, values);
    if let Some(values) = values {
        let _ = write!(
            body,
            "<p class=\"soft\">Evaluated with values in f32, as they were trained, and in {values}; times are in {values}.</p>"
        );
    }
    if !batches(rows).is_empty() {
        body += "<p class=\"soft\">Times are of the whole model on test data, with the loss of classifiers: medians, dense and \
                 packed in turns, of the first seed.</p>";
    }
    for row in rows {
        let open = if rows.len() == 1 { " open" } else { "" };
        let name = match (row.name.as_str(), row.is_dense()) {
            (_, true) => "dense".into(),
            ("", _) => row.pattern.clone(),
            (name, _) => name.to_string(),
        };
        let _ = write!(body, "<details{open}><summary>{}</summary>", escaped(&name));
        body += &details(&found.runs[row.runs[0]], row.measured.as_ref(), open);
        body += "</details>";
    }
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><title>{}</title><style>{}</style></head>\
         <body>{body}</body></html>\n",
        escaped(&title),
        include_str!("page.css")
    )
}

/// Summarizes a run: its metric, sparsity and pattern, and the size of its checkpoint.
fn lead(run: &Run) -> String {
    let dense = run.dense_metric.as_ref();
    let dense = dense.map_or(String::new(), |dense| format!(" (dense: {dense})"));
    let megabytes = run.bytes as f64 / 1e6;
    let metric = run.metric.to_string();
    let mut letters = metric.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    let metric = first.unwrap_or_default() + letters.as_str();
    match run.pattern.as_str() {
        "dense" => format!("{metric}, nothing pruned. The checkpoint is {megabytes:.2} MB."),
        pattern => format!(
            "{metric}{dense} at {:.2} % sparsity, {pattern}. The packed checkpoint is {megabytes:.2} MB.",
            100.0 * run.sparsity
        ),
    }
}

fn table(rows: &[Row], values: Option<&str>) -> String {
    let batches = batches(rows);
    let mut heading = vec!["run".into(), "sparsity".into(), metric_name(rows)];
    heading.extend(values.map(|values| format!("in {values}")));
    heading.push("seeds".into());
    for batch in &batches {
        heading.extend([format!("batch {batch}: dense"), "packed".into(), "faster".into()]);
    }
    let cells = rows.iter().map(|row| {
        let name = if row.name.is_empty() { &row.pattern } else { &row.name };
        let mut cells = vec![name.clone(), sparsity(row), value(row)];
        cells.extend(values.map(|_| rounded(row)));
        cells.push(row.values.len().to_string());
        for batch in &batches {
            let found = row.latency().iter().find(|latency| latency.batch == *batch);
            cells.extend(match found {
                Some(found) => [
                    format!("{:.3} ms", found.dense_us / 1e3),
                    format!("{:.3} ms", found.sparse_us / 1e3),
                    format!("{:.2}×", found.speedup()),
                ],
                None => ["-", "-", "-"].map(String::from),
            });
        }
        cells
    });
    html_table(&heading, cells, 1)
}

/// Renders a table whose columns from index `numbers` on are right-aligned.
fn html_table(
    heading: &[String],
    rows: impl Iterator<Item = Vec<String>>,
    numbers: usize,
) -> String {
    let class = |at: usize| if at >= numbers { " class=\"n\"" } else { "" };
    let mut table = String::from("<div class=\"wide\"><table><tr>");
    for (at, cell) in heading.iter().enumerate() {
        let _ = write!(table, "<th{}>{}</th>", class(at), escaped(cell));
    }
    table += "</tr>";
    for row in rows {
        table += "<tr>";
        for (at, cell) in row.iter().enumerate() {
            let _ = write!(table, "<td{}>{}</td>", class(at), escaped(cell));
        }
        table += "</tr>";
    }
    table + "</table></div>"
}

/// Largest number of masks shown at once.
const MASKS: usize = 8;

/// Renders the details of one run: charts, layers, masks and recipe.
fn details(run: &Run, measured: Option<&Measured>, open: &str) -> String {
    let mut html = String::new();
    html += "<div class=\"charts\">";
    if !run.epochs.is_empty() {
        html += &by_epoch(run).draw();
        if run.pattern != "dense" {
            html += &ramp(run).draw();
        }
    }
    if !run.calibration.is_empty() {
        html += &by_layer(run).draw();
    }
    html += "</div>";
    html += &damping(&run.calibration);
    html += &training(run);
    if let Some(measured) = measured {
        html += &layers(measured);
    }
    if let Ok(masks) = plot::masks(&run.checkpoint) {
        // The masks of a deep network would be most of the page.
        let open = if run.checkpoint.packed().count() > MASKS { "" } else { open };
        let _ = write!(
            html,
            "<details{open}><summary>Masks</summary><div class=\"masks\">{masks}</div></details>"
        );
    }
    if let Some(recipe) = run.checkpoint.provenance().recipe() {
        let recipe = escaped(recipe);
        let _ = write!(html, "<details><summary>Recipe</summary><pre>{recipe}</pre></details>");
    }
    html
}

/// Names the weights whose inputs needed more damping than the others'; empty if there are none.
fn damping(weights: &[CalibratedWeight]) -> String {
    let least = weights.iter().map(|weight| weight.damp).fold(f64::INFINITY, f64::min);
    let more = weights.iter().filter(|weight| weight.damp > least);
    let more: Vec<String> =
        more.map(|weight| format!("{} ({})", escaped(&weight.name), weight.damp)).collect();
    match more.is_empty() {
        true => String::new(),
        false => format!(
            "<p>The inputs of some layers are linearly dependent, so that their repair was damped by more than {least}: {}.</p>",
            more.join(", ")
        ),
    }
}

/// Renders the gain from packed training; empty without it.
fn training(run: &Run) -> String {
    let pruning = || run.epochs.iter().filter(|epoch| epoch.phase == Phase::Prune);
    let masked = pruning().rfind(|epoch| epoch.steps.masked.is_some());
    let packed = pruning().rfind(|epoch| epoch.steps.packed.is_some());
    let Some((packed, seconds)) = packed.and_then(|epoch| Some((epoch, epoch.steps.packed?)))
    else {
        return String::new();
    };
    let part = |seconds: f64, bytes: u64| {
        format!("{:.1} ms per step, {:.0} MB trained", 1e3 * seconds, bytes as f64 / 1e6)
    };
    let now = part(seconds, packed.trained_bytes);
    match masked.and_then(|epoch| Some((epoch, epoch.steps.masked?))) {
        // In the epoch of the last update, masked steps end with packed weights.
        Some((epoch, before)) if epoch.steps.packed.is_none() => {
            format!("<p>Under masks {}; packed {now}.</p>", part(before, epoch.trained_bytes))
        }
        Some((_, before)) => {
            format!("<p>Under masks {:.1} ms per step; packed {now}.</p>", 1e3 * before)
        }
        None => format!("<p>Packed {now}.</p>"),
    }
}

/// Renders a table of every matrix: the kernel that ran for it in the model, and its own latency.
fn layers(measured: &Measured) -> String {
    let batches: Vec<usize> = measured.latency.iter().map(|latency| latency.batch).collect();
    let mut heading: Vec<String> =
        ["weight", "kernel in the model", "pattern"].map(String::from).into();
    heading.extend(["rows × columns".into(), "sparsity".into()]);
    heading.extend(batches.iter().map(|batch| format!("product alone, batch {batch}")));
    let rows = measured.layers.iter().map(|layer| {
        let mut cells = vec![
            layer.name.clone(),
            layer.kernel.clone(),
            layer.pattern.clone(),
            format!("{} × {}", layer.rows, layer.cols),
            format!("{:.1} %", 100.0 * layer.sparsity),
        ];
        for batch in &batches {
            let found = measured
                .alone
                .iter()
                .find(|alone| alone.name == layer.name && alone.batch == *batch);
            let says = |Alone { row, .. }: &Alone| {
                let BenchRow { batch: tokens, dense_us, sparse_us, speedup, .. } = row;
                let s = if *tokens == 1 { "" } else { "s" };
                format!("{tokens} token{s}, {dense_us:.1} to {sparse_us:.1} µs, {speedup:.2}×")
            };
            cells.push(found.map_or("-".into(), says));
        }
        cells
    });
    let table = html_table(&heading, rows, 3);
    format!("<h2>Layers</h2>{table}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn weight(name: &str, damp: f64) -> CalibratedWeight {
        serde_json::from_value(json!({
            "name": name, "sparsity": 0.5, "tokens": 9, "error_masked": 0.2, "error": 0.1, "damp": damp, "seconds": 1.0,
        }))
        .unwrap()
    }

    #[test]
    fn a_report_names_the_layers_that_were_damped_more_than_the_others() {
        let usual = [weight("a", 0.01), weight("b", 0.01)];
        assert_eq!(damping(&usual), "");
        let text = damping(&[weight("a", 0.01), weight("b<", 0.1)]);
        assert!(text.contains("more than 0.01") && text.contains("b&lt; (0.1)"), "{text}");
        assert_eq!(damping(&[]), "");
    }
}
