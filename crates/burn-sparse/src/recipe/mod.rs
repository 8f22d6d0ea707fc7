//! The recipe: plain data in TOML, no code runs from it.

mod after;
mod curve;
mod distill;
mod error;
mod moment;
mod overrides;
mod prune;
mod regrow;
mod spec;
mod train;

pub use after::{After, MaskAfter, OptimizerState, StatePolicy};
pub use curve::Curve;
pub use distill::Distill;
pub use error::RecipeError;
pub use moment::{Moment, Unit};
pub use prune::{PruneTable, Regroup, Score};
pub use regrow::{Anneal, GrowAndPrune, Growth, GrowthScore, Regrow};
pub use spec::Recipe;
pub use train::{Keep, LearningRateSchedule, OptimizerSpec, TrainTable};
