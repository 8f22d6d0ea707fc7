//! Sweeps: a recipe over patterns, sparsities, methods, and seeds, with one dense checkpoint per seed.

mod grid;
mod run;
mod sensitivity;

pub use grid::{Method, Sweep};
pub use run::{Spread, SweepPlace, SweepReport, SweepRow, sweep};
pub use sensitivity::{Sensitivity, SensitivityEvent, Trial, sensitivity};
