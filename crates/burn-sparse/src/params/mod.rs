//! Parameters of a Burn module by path, and their views as matrices.

mod census;
mod leaf;
mod names;
mod path;
mod view;
mod visit;

pub(crate) use census::{Parameter, parameters};
pub(crate) use leaf::{edit_leaf, ids, mask_bytes};
pub(crate) use names::listed;
pub(crate) use path::Path;
pub(crate) use view::view_of;
pub(crate) use visit::{MapParams, VisitParams, map_params, visit_params};
