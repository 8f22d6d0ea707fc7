//! Recipe files: plain data in TOML; no code runs from them.

mod after;
mod blend;
mod calibrate;
mod data;
mod distill;
mod error;
mod overrides;
mod recipe_file;
mod train;

pub use after::{After, MaskAfter};
pub use calibrate::Calibrate;
pub use data::DataConfig;
pub use distill::Distill;
pub use error::RecipeError;
pub use recipe_file::Recipe;
pub use train::{Keep, LearningRateSchedule, OptimizerConfig, StateType, TrainConfig};
