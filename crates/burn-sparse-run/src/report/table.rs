use super::{Found, Latency, Measured};

/// Runs that differ only in their seed.
#[derive(Debug)]
pub struct Row {
    /// Name that the runs share.
    pub name: String,
    /// Their patterns.
    pub pattern: String,
    /// Method of a sweep that has several; otherwise empty.
    pub method: String,
    /// Mean share of zeros.
    pub sparsity: f64,
    /// Name of the metric.
    pub metric: String,
    /// Metric of every seed.
    pub values: Vec<f64>,
    /// Metric of every seed with values of another type; empty if none was requested.
    pub rounded: Vec<f64>,
    /// Indices of the runs in [`Found::runs`].
    pub runs: Vec<usize>,
    /// Measurements of the first run, if it was measured.
    pub measured: Option<Measured>,
}

impl Row {
    /// Returns the mean of the metric.
    pub fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }

    /// Returns the lowest and the highest value of the metric.
    pub fn range(&self) -> (f64, f64) {
        range(&self.values)
    }

    /// Returns the latencies of the first run's model; empty if it was not measured.
    pub fn latency(&self) -> &[Latency] {
        self.measured.as_ref().map_or(&[], |measured| &measured.latency)
    }

    /// Returns `true` if nothing is pruned.
    pub fn is_dense(&self) -> bool {
        self.pattern == "dense"
    }
}

/// Builds one row for all seeds of a name, sorted with dense runs first, then by method, pattern and sparsity.
pub fn rows(found: &Found) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (at, run) in found.runs.iter().enumerate() {
        let place = rows.iter().position(|row| row.name == run.name).unwrap_or(rows.len());
        if place == rows.len() {
            let method = run.name.split_once('/').map_or("", |(method, _)| method);
            rows.push(Row {
                name: run.name.clone(),
                pattern: run.pattern.clone(),
                method: method.into(),
                sparsity: 0.0,
                metric: run.metric.name.clone(),
                values: Vec::new(),
                rounded: Vec::new(),
                runs: Vec::new(),
                measured: None,
            });
        }
        let row = &mut rows[place];
        row.values.push(run.metric.value);
        row.runs.push(at);
        row.sparsity += (run.sparsity - row.sparsity) / row.values.len() as f64;
    }
    let key = |row: &Row| (!row.is_dense(), row.method.clone(), row.pattern.clone());
    rows.sort_by(|a, b| key(a).cmp(&key(b)).then(a.sparsity.total_cmp(&b.sparsity)));
    rows
}

/// Returns the lowest and the highest value.
pub(super) fn range(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    (low, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}
