//! The recipe: plain data in TOML, no code runs from it.

mod curve;
mod error;
mod moment;
mod overrides;
mod prune;
mod regrow;
mod spec;

pub use curve::Curve;
pub use error::RecipeError;
pub use moment::{Moment, Unit};
pub use prune::{PruneTable, Regroup, Score};
pub use regrow::{Anneal, Growth, GrowthScore, Regrow};
pub use spec::{After, LearningRateSchedule, MaskAfter, OptimizerSpec, Recipe, TrainTable};
