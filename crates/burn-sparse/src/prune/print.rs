//! Text form of a plan.

use std::fmt;

use burn_sparse_pattern::Distribution;

use super::{Plan, Schedule};

/// Widest name column; longer names overflow it.
const WIDEST: usize = 80;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.weights.iter().map(|w| w.name.len());
        let longest = all.chain(self.unpruned.iter().map(|u| u.name.len())).max().unwrap_or(0);
        let width = longest.clamp(9, WIDEST);
        write!(f, "{} pruning steps", self.prune_steps)?;
        match self.steps_per_epoch {
            Some(steps) => writeln!(f, ", {steps} an epoch\n")?,
            None => writeln!(f, "\n")?,
        }
        writeln!(f, "{:width$}  {:>13}  {:>20}  pattern", "parameter", "rows x cols", "zeros")?;
        for weight in &self.weights {
            let (rows, cols) = (weight.view.rows(), weight.view.cols());
            let share = 100.0 * weight.zeros as f64 / (rows as f64 * cols as f64);
            write!(
                f,
                "{:width$}  {:>13}  {:>11} ({share:.2} %)  {}",
                weight.name,
                format!("{rows} x {cols}"),
                weight.zeros,
                weight.pattern,
            )?;
            if weight.distribution == Distribution::Global {
                write!(f, "  (one threshold for prune[{}]; here evenly spread)", weight.table)?;
            }
            if weight.kept {
                write!(f, "  (fixed mask)")?;
            }
            if !weight.shadowed.is_empty() {
                let tables: Vec<_> =
                    weight.shadowed.iter().map(|t| format!("prune[{t}]")).collect();
                write!(f, "  (prune[{}] overrides {})", weight.table, tables.join(", "))?;
            }
            writeln!(f)?;
        }
        for other in &self.unpruned {
            let sizes = match &other.view {
                Some(view) => vec![view.rows(), view.cols()],
                None => other.shape.clone(),
            };
            let shape: Vec<_> = sizes.iter().map(usize::to_string).collect();
            let shape = shape.join(" x ");
            writeln!(f, "{:width$}  {shape:>13}  {:>20}  {}", other.name, "dense", other.reason)?;
        }
        let mut schedules: Vec<_> = Vec::new();
        for weight in self.weights.iter().filter(|weight| !weight.kept) {
            if !schedules.iter().any(|(_, schedule)| *schedule == &weight.schedule) {
                schedules.push((weight.table, &weight.schedule));
            }
        }
        for (table, schedule) in schedules {
            let (count, target) = (schedule.count(), schedule.target);
            writeln!(
                f,
                "\nramp of prune[{table}] to {target:.4}: {count} updates (step: sparsity)"
            )?;
            for line in shortened(schedule).chunks(8) {
                let cells: Vec<_> =
                    line.iter().map(|(step, sparsity)| format!("{step}: {sparsity:.4}")).collect();
                writeln!(f, "  {}", cells.join("  "))?;
            }
        }
        Ok(())
    }
}

/// Selects at most 25 updates, including the first and the last.
fn shortened(schedule: &Schedule) -> Vec<(usize, f64)> {
    let last = schedule.count() - 1;
    let stride = schedule.count().div_ceil(24).max(1);
    let few = (0..last).step_by(stride).chain(std::iter::once(last));
    few.map(|number| schedule.update(number)).collect()
}
