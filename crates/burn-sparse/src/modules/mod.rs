//! Walking a Burn module by path, and seeing its weights as matrices.

mod parameters;
mod path;
mod view;

pub(crate) use parameters::{Parameter, parameters};
pub(crate) use path::Path;
pub(crate) use view::view_of;
