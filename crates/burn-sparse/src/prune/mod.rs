//! Configuration of pruning, and its application to a model before training.
//!
//! A [`PruneConfig`] is one rule: parameters, pattern, sparsity, ramp. [`Pruning`] holds several. [`Plan::new`] applies them to
//! a model and fails on anything doubtful; the plan prints as a table.

mod config;
mod criteria;
mod curve;
mod distribute;
mod error;
mod horizon;
mod keeping;
mod moment;
mod optimizer_state;
mod partitions;
mod plan;
mod planned;
mod print;
mod pruning;
mod ramp;
mod regrow;
mod schedule;
mod selection;
mod timing;

pub use burn_sparse_pattern::Distribution;
pub use config::PruneConfig;
pub use criteria::{Regroup, Score};
pub use curve::{Curve, NamedCurve};
pub use error::{ConfigError, PlanError};
pub use horizon::Horizon;
pub use moment::Moment;
pub use optimizer_state::{OptimizerState, StatePolicy};
pub use plan::Plan;
pub use planned::{PlannedWeight, Unpruned};
pub use pruning::Pruning;
pub use ramp::Ramp;
pub use regrow::{Anneal, GrowAndPrune, Growth, GrowthScore, Regrow};
pub use schedule::{Schedule, Turn};
