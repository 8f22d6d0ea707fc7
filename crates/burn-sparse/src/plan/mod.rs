//! The recipe applied to a model, before anything trains.

mod base;
mod distribute;
mod error;
mod keeping;
mod print;
mod ramp;
mod schedule;
mod selection;
mod turns;
mod weight;

pub use base::Plan;
pub use error::PlanError;
pub use schedule::{Schedule, Turn};
pub use weight::{PlannedWeight, Unpruned};
