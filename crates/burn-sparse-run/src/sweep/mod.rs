//! Sweeps: a recipe over patterns, sparsities, methods, and seeds, with one dense checkpoint per seed.

mod budget;
mod candidate;
mod cheapest;
mod choose;
mod claim;
mod grid;
mod layer_times;
mod run;
mod sensitivity;
mod shard;

pub use budget::{BudgetReport, budget};
pub use candidate::{Candidate, CandidateEvent};
pub use choose::{Budget, BudgetError, Budgeted, TimedCandidate};
pub use grid::{Method, Sweep};
pub use layer_times::LayerTime;
pub use run::{Spread, SweepOutcome, SweepPlace, SweepReport, SweepRow, sweep};
pub use sensitivity::{Sensitivity, Trial, sensitivity};
pub use shard::Shard;
