use std::collections::BTreeSet;

use burn_sparse::pattern::Pattern;
use burn_sparse::prune::PruneConfig;
use burn_sparse::train::Compute;

use crate::recipe::{After, Recipe, RecipeError, TrainConfig};

/// Grid of runs around a recipe.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// Recipe of everything that is not varied; its dense phase is trained once per seed.
    pub recipe: Recipe,
    /// Methods, at least one.
    pub methods: Vec<Method>,
    /// Patterns of every `[[prune]]` table.
    pub patterns: Vec<Pattern>,
    /// Sparsities of every `[[prune]]` table; a pattern that fixes its own is trained once.
    pub sparsities: Vec<f64>,
    /// Number of seeds, starting with that of the recipe.
    pub seeds: u64,
}

/// Method: keys that differ from the recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method {
    /// Name in tables and folders; empty for the unchanged recipe.
    pub name: String,
    /// `key=value` overrides, as `--set` takes them.
    pub sets: Vec<String>,
}

/// Method, pattern, and sparsity, with one run per seed.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) method: String,
    pub(super) pattern: Pattern,
    pub(super) target: f64,
    pub(super) runs: Vec<Planned>,
}

/// Run of a sweep.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    /// Path in the folder of the sweep.
    pub(super) folder: String,
    pub(super) recipe: Recipe,
}

impl Sweep {
    /// Returns the dense run of every seed, which does not depend on how weights are pruned afterwards.
    pub(super) fn dense(&self) -> Vec<Planned> {
        let planned = |seed| {
            let (prune, after) = (Vec::new(), After::default());
            let mut recipe = Recipe { seed, prune, after, calibrate: None, ..self.recipe.clone() };
            let compute = Compute::default();
            recipe.train = TrainConfig {
                prune_epochs: 0,
                rewind: None,
                distill: None,
                compute,
                ..recipe.train
            };
            Planned { folder: format!("dense/seed-{seed}"), recipe }
        };
        self.seeds().map(planned).collect()
    }

    /// Returns every cell of the grid, checked.
    pub(super) fn cells(&self) -> Result<Vec<Cell>, RecipeError> {
        let mut cells = Vec::new();
        let mut names = BTreeSet::new();
        if let Some(twice) = self.methods.iter().find(|method| !names.insert(&method.name)) {
            let reason = format!("is the name of two methods: {}", twice.name);
            return Err(RecipeError::value("--method", reason));
        }
        for method in &self.methods {
            for &pattern in &self.patterns {
                for target in self.targets(pattern) {
                    let runs = self.seeds().map(|seed| self.planned(method, pattern, target, seed));
                    let (method, runs) = (method.name.clone(), runs.collect::<Result<_, _>>()?);
                    cells.push(Cell { method, pattern, target, runs });
                }
            }
        }
        Ok(cells)
    }

    /// Returns the sparsities of a pattern: its own if it fixes one.
    pub(super) fn targets(&self, pattern: Pattern) -> Vec<f64> {
        pattern.fixed_sparsity().map_or_else(|| self.sparsities.clone(), |fixed| vec![fixed])
    }

    fn planned(
        &self,
        method: &Method,
        pattern: Pattern,
        target: f64,
        seed: u64,
    ) -> Result<Planned, RecipeError> {
        let mut recipe = Recipe { seed, ..self.recipe.clone() };
        recipe.train.dense_epochs = 0;
        let tables = recipe.prune.into_iter().map(|table| table.with_pattern(pattern, target));
        recipe.prune = tables.collect();
        // Checks the varied keys with the rest of the recipe; those of the method come last.
        let recipe = Recipe::parse_with(&recipe.to_toml(), &method.sets)?;
        if recipe.task != self.recipe.task || recipe.seed != seed {
            let key = if recipe.seed == seed { "task" } else { "seed" };
            let reason = format!("is the sweep's own, method {} cannot set it", method.name);
            return Err(RecipeError::value(key, reason));
        }
        let same = |of: fn(&PruneConfig, Pattern, f64) -> bool| {
            recipe.prune.iter().all(|table| of(table, pattern, target))
        };
        for (key, same) in [
            ("prune.pattern", same(|table, pattern, _| table.pattern() == pattern)),
            ("prune.sparsity", same(|table, _, target| table.target() == target)),
            ("model", recipe.model == self.recipe.model),
            ("data", recipe.data == self.recipe.data),
            ("width", recipe.width == self.recipe.width),
        ] {
            if !same {
                let reason = format!("is the sweep's own, method {} cannot set it", method.name);
                return Err(RecipeError::value(key, reason));
            }
        }
        let method = if method.name.is_empty() { "" } else { &format!("{}/", method.name) };
        let folder = format!("{method}{pattern}-{target}/seed-{seed}");
        Ok(Planned { folder, recipe })
    }

    fn seeds(&self) -> impl Iterator<Item = u64> {
        let first = self.recipe.seed;
        first..first.saturating_add(self.seeds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(keys: &str) -> Recipe {
        let recipe = format!(
            "version = 1\ntask = \"glyphs-mlp\"\n[train]\n{keys}\n[[prune]]\n\
             pattern = {{ kind = \"balanced\", block = 32 }}\nsparsity = 0.5\nend = \"0 epochs\"\n"
        );
        let sweep = Sweep {
            recipe: recipe.parse().unwrap(),
            methods: Vec::new(),
            patterns: Vec::new(),
            sparsities: Vec::new(),
            seeds: 1,
        };
        sweep.dense().remove(0).recipe
    }

    #[test]
    fn a_dense_run_serves_every_way_of_pruning() {
        let distill = "distill = { weight = 0.5, temperature = 2.0 }";
        let calibrate = "[calibrate]\nsamples = 64";
        for keys in ["prune_epochs = 3", "rewind = 0.5", distill, "compute = \"packed\"", calibrate]
        {
            assert_eq!(dense(keys), dense(""), "{keys}");
        }
        assert_ne!(dense("dense_epochs = 3"), dense(""));
    }
}
