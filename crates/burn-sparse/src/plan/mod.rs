//! The recipe applied to a model, before anything trains.

mod base;
mod distribute;
mod error;
mod keeping;
mod print;
mod schedule;
mod selection;
mod turns;

pub use base::{Plan, PlannedWeight, Unpruned};
pub use error::PlanError;
pub use schedule::{Schedule, Turn};
