//! The recipe: plain data in TOML, no code runs from it.

mod curve;
mod error;
mod moment;
mod overrides;
mod prune;
mod spec;

pub use curve::Curve;
pub use error::RecipeError;
pub use moment::{Moment, Unit};
pub use prune::{PruneTable, Regroup, Regrow, Score};
pub use spec::{After, LearningRateSchedule, MaskAfter, OptimizerSpec, Recipe, TrainTable};
