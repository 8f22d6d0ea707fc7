//! A sweep: one recipe over patterns, sparsities, methods and seeds, every seed's runs from one dense
//! checkpoint.

mod grid;
mod run;
mod sensitivity;

pub use grid::{Method, Sweep};
pub use run::{Row, Spread, SweepReport, sweep};
pub use sensitivity::{Sensitivity, Trial, sensitivity};
