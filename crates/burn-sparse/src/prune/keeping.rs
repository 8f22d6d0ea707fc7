use std::collections::BTreeMap;

use burn::module::Module;
use burn_sparse_pattern::Distribution;
use burn_sparse_pattern::format::Entry;

use super::selection::view;
use super::{
    Curve, Horizon, Plan, PlannedWeight, Pruning, Regroup, Regrow, Schedule, Score, Unpruned,
};
use crate::params::parameters;

impl Plan {
    /// Plans training under the fixed masks of packed weights; the rules of `pruning` have no effect.
    pub(crate) fn keeping<M: Module>(
        pruning: &Pruning,
        model: &M,
        entries: &BTreeMap<String, Entry>,
        horizon: Horizon,
    ) -> Self {
        let (mut weights, mut unpruned) = (Vec::new(), Vec::new());
        for parameter in parameters(model) {
            let view = view(&parameter);
            let (name, shape) = (parameter.name, parameter.shape);
            let Some(Entry::Packed(entry)) = entries.get(&name) else {
                let reason = "dense in the checkpoint".into();
                unpruned.push(Unpruned { name, shape, view, reason });
                continue;
            };
            let packed = &entry.packed;
            weights.push(PlannedWeight {
                name,
                view: entry.view.clone(),
                table: 0,
                shadowed: vec![],
                pattern: entry.pattern,
                zeros: packed.rows() * packed.cols() - packed.kept(),
                distribution: Distribution::Uniform,
                cap: 1.0,
                kept: true,
                schedule: Schedule {
                    start: 0,
                    end: 0,
                    every: 1,
                    curve: Curve::default(),
                    target: packed.sparsity(),
                    turn: None,
                },
                score: Score::Magnitude,
                regrow: Regrow::Never,
                decay: 0.0,
                attract: 0.0,
                regroup: Regroup::FirstUpdate,
            });
        }
        Self::of(pruning, horizon, weights, unpruned)
    }
}
