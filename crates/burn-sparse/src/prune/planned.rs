use std::collections::BTreeMap;

use burn_sparse_pattern::format::View;
use burn_sparse_pattern::{Distribution, Pattern};
use serde::{Deserialize, Serialize};

use super::{Regroup, Regrow, Schedule, Score};

/// A parameter that is pruned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlannedWeight {
    /// Path in the module.
    pub name: String,
    /// Matrix view of the stored weight.
    pub view: View,
    /// Index of the rule (`[[prune]]` table) that applies.
    pub table: usize,
    /// Rules that also match and are overridden.
    pub shadowed: Vec<usize>,
    /// Pattern of the mask.
    pub pattern: Pattern,
    /// Number of zeros of the final mask; approximate for patterns whose units differ in size.
    pub zeros: usize,
    /// Distribution of the rule's sparsity over its weights. With `global`, training decides, and `zeros` and the
    /// schedule's target are those of a uniform distribution.
    #[serde(default)]
    pub distribution: Distribution,
    /// Highest sparsity that a global threshold gives the weight.
    #[serde(default)]
    pub cap: f64,
    /// `true` if the mask is given, by a checkpoint or by calibration, and is never updated.
    #[serde(default)]
    pub kept: bool,
    /// Steps at which the mask is updated.
    pub schedule: Schedule,
    /// Score that ranks the weights.
    pub score: Score,
    /// Return of dropped weights during the ramp.
    pub regrow: Regrow,
    /// Strength of the decay of dropped weights that keep learning.
    #[serde(default)]
    pub decay: f64,
    /// Strength of the group lasso over the vectors of the current groups.
    #[serde(default)]
    pub attract: f64,
    /// When the row order is searched again.
    pub regroup: Regroup,
}

impl PlannedWeight {
    /// Returns `true` if only kept weights need to be trained between mask updates: dropped weights never come back, and no
    /// update needs gradients. `by_gradients` is `true` if weights are ranked by gradients.
    pub fn drops_for_good(&self, by_gradients: bool) -> bool {
        self.regrow == Regrow::Never && !by_gradients
    }
}

/// A parameter that is not pruned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Unpruned {
    /// Path in the module.
    pub name: String,
    /// Stored shape.
    pub shape: Vec<usize>,
    /// Matrix view of the stored weight; `None` if it is no matrix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<View>,
    /// Reason.
    pub reason: String,
}

/// Groups the weights by rule, as indices in the model's order.
pub(super) fn tables(weights: &[PlannedWeight]) -> BTreeMap<usize, Vec<usize>> {
    let mut tables: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, weight) in weights.iter().enumerate() {
        tables.entry(weight.table).or_default().push(index);
    }
    tables
}
