//! Sweeps: a recipe over patterns, sparsities, methods, and seeds, with one dense checkpoint per seed.

mod budget;
mod claim;
mod grid;
mod run;
mod sensitivity;
mod shard;

pub use budget::{Budget, BudgetError, Budgeted};
pub use grid::{Method, Sweep};
pub use run::{Spread, SweepOutcome, SweepPlace, SweepReport, SweepRow, sweep};
pub use sensitivity::{DenseLatency, LayerTime, Sensitivity, SensitivityEvent, Trial, sensitivity};
pub use shard::Shard;
