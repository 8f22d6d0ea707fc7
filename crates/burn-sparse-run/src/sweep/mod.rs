//! Sweeps: a recipe over patterns, sparsities, methods, and seeds, with one dense checkpoint per seed.

mod claim;
mod grid;
mod run;
mod sensitivity;
mod shard;

pub use grid::{Method, Sweep};
pub use run::{Spread, SweepOutcome, SweepPlace, SweepReport, SweepRow, sweep};
pub use sensitivity::{Sensitivity, SensitivityEvent, Trial, sensitivity};
pub use shard::Shard;
