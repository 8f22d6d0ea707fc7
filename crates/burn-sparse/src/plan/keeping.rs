use std::collections::BTreeMap;

use burn::module::Module;
use burn_sparse_pattern::Distribution;
use burn_sparse_pattern::format::Entry;

use super::{Plan, PlannedWeight, Schedule, Unpruned};
use crate::modules::parameters;
use crate::recipe::{Curve, Recipe, Regroup, Regrow, Score};

impl Plan {
    /// The plan of a model that keeps the masks of its packed weights as they are, whatever the recipe
    /// says of patterns.
    pub(crate) fn keeping<M: Module>(
        recipe: &Recipe,
        model: &M,
        entries: &BTreeMap<String, Entry>,
        steps_per_epoch: usize,
    ) -> Self {
        let (mut weights, mut unpruned) = (Vec::new(), Vec::new());
        for parameter in parameters(model) {
            let (name, shape) = (parameter.name, parameter.shape);
            let Some(Entry::Packed(entry)) = entries.get(&name) else {
                let reason = "dense in the checkpoint".into();
                unpruned.push(Unpruned { name, shape, reason });
                continue;
            };
            let packed = &entry.packed;
            let target = packed.sparsity();
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
                    target,
                    turn: None,
                },
                score: Score::Magnitude,
                regrow: Regrow::Never,
                decay: 0.0,
                attract: 0.0,
                regroup: Regroup::FirstUpdate,
            });
        }
        Self {
            task: recipe.task.clone(),
            seed: recipe.seed,
            steps_per_epoch,
            prune_steps: recipe.train.prune_epochs * steps_per_epoch,
            optimizer_state: recipe.after.optimizer_state,
            weights,
            unpruned,
        }
    }
}
