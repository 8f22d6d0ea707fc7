//! A sweep: one recipe over patterns, sparsities, methods and seeds, every seed's runs from one dense
//! checkpoint.

mod grid;
mod run;

pub use grid::{Method, Sweep};
pub use run::{Row, Spread, SweepReport, sweep};
