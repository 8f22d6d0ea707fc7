use std::collections::BTreeSet;
use std::fmt::Write;

use super::Row;
use super::table::range;
use crate::Metric;

/// Formats the rows as a Markdown table, for a README. `values` names the type of [`Row::rounded`].
pub fn markdown(rows: &[Row], values: Option<&str>) -> String {
    let batches = batches(rows);
    let methods = rows.iter().any(|row| !row.method.is_empty());
    let mut heading: Vec<String> = Vec::new();
    if methods {
        heading.push("method".into());
    }
    heading.extend(["pattern".into(), "sparsity".into(), metric_name(rows)]);
    heading.extend(values.map(|values| format!("in {values}")));
    heading.push("seeds".into());
    heading.extend(batches.iter().map(|batch| format!("faster at batch {batch}")));
    let mut text = line(&heading);
    text += &line(&vec!["---".to_string(); heading.len()]);
    for row in rows {
        let mut cells = Vec::new();
        if methods {
            cells.push(row.method.clone());
        }
        cells.push(row.pattern.clone());
        cells.push(sparsity(row));
        cells.push(value(row));
        cells.extend(values.map(|_| rounded(row)));
        cells.push(row.values.len().to_string());
        for batch in &batches {
            let found = row.latency().iter().find(|latency| latency.batch == *batch);
            cells.push(found.map_or("-".into(), |found| format!("{:.1}×", found.speedup())));
        }
        text += &line(&cells);
    }
    text
}

/// Returns the batch sizes that were measured, in ascending order.
pub(super) fn batches(rows: &[Row]) -> Vec<usize> {
    let all = rows.iter().flat_map(|row| row.latency().iter().map(|latency| latency.batch));
    all.collect::<BTreeSet<usize>>().into_iter().collect()
}

/// Returns the name of the metric, with spaces for underscores.
pub(super) fn metric_name(rows: &[Row]) -> String {
    rows.first().map_or(String::new(), |row| row.metric.replace('_', " "))
}

/// Formats the sparsity for tables; `-` for dense runs.
pub(super) fn sparsity(row: &Row) -> String {
    if row.is_dense() { "-".into() } else { format!("{:.1} %", 100.0 * row.sparsity) }
}

/// Formats the mean of the metric, with its range if there are several seeds.
pub(super) fn value(row: &Row) -> String {
    spread(&row.metric, &row.values)
}

/// As [`value`], for values of another type.
pub(super) fn rounded(row: &Row) -> String {
    spread(&row.metric, &row.rounded)
}

fn spread(metric: &str, values: &[f64]) -> String {
    let written = |value| Metric::written(metric, value);
    let (mean, (low, high)) = (values.iter().sum::<f64>() / values.len() as f64, range(values));
    match values.len() {
        0 => "-".into(),
        1 => written(mean),
        _ => format!("{} ({} to {})", written(mean), written(low), written(high)),
    }
}

fn line(cells: &[String]) -> String {
    let mut text = String::from("|");
    for cell in cells {
        let _ = write!(text, " {} |", cell.replace('|', "\\|"));
    }
    text.push('\n');
    text
}
