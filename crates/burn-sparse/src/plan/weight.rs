use std::collections::BTreeMap;

use burn_sparse_pattern::format::View;
use burn_sparse_pattern::{Distribution, Pattern};
use serde::{Deserialize, Serialize};

use super::Schedule;
use crate::recipe::{Regroup, Regrow, Score};

/// A parameter that is pruned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedWeight {
    /// Its path in the module.
    pub name: String,
    /// How its stored weight is seen as a matrix.
    pub view: View,
    /// The index of the `[[prune]]` table that applies.
    pub table: usize,
    /// Tables that also match and are overridden by it.
    pub shadowed: Vec<usize>,
    /// The allowed shapes of its mask.
    pub pattern: Pattern,
    /// The zeros its final mask has; for patterns whose units differ in size, nearly.
    pub zeros: usize,
    /// How its table spreads sparsity; `global` decides in training, `zeros` and the schedule's target
    /// are then those of an even spread.
    #[serde(default)]
    pub distribution: Distribution,
    /// The highest sparsity that a global threshold gives it.
    #[serde(default)]
    pub cap: f64,
    /// Whether its mask is that of the checkpoint it comes from, and is never updated.
    #[serde(default)]
    pub kept: bool,
    /// When its mask is updated.
    pub schedule: Schedule,
    /// What ranks its weights.
    pub score: Score,
    /// Whether dropped weights may come back during the ramp.
    pub regrow: Regrow,
    /// How strongly weights that are dropped but go on learning are drawn to zero.
    #[serde(default)]
    pub decay: f64,
    /// How strongly the rows of a group are drawn to common columns.
    #[serde(default)]
    pub attract: f64,
    /// When its row order is searched again.
    pub regroup: Regroup,
}

/// A parameter that is not pruned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unpruned {
    /// Its path in the module.
    pub name: String,
    /// Its stored shape.
    pub shape: Vec<usize>,
    /// Why not.
    pub reason: String,
}

/// The weights of every `[[prune]]` table, as indices in the model's order.
pub(super) fn tables(weights: &[PlannedWeight]) -> BTreeMap<usize, Vec<usize>> {
    let mut tables: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, weight) in weights.iter().enumerate() {
        tables.entry(weight.table).or_default().push(index);
    }
    tables
}
