//! `sweep`: a grid of settings, the sensitivity of single weights, or a sparsity of each for a time budget.

mod arguments;
mod budget;
mod grid;
mod job;
mod sensitivity;

use std::path::{Path, PathBuf};

use burn_sparse_run::sweep::{Budget, Method, Sweep};

pub(crate) use arguments::SweepArguments;

use super::{Failure, recipe};
use crate::costs;
use crate::device::device;
use crate::output;
use job::Job;

pub(crate) fn sweep(arguments: &SweepArguments) -> Result<(), Failure> {
    let recipe = recipe(arguments.recipe.as_deref(), &arguments.sets)?;
    if recipe.prune.is_empty() {
        return Err("the recipe has no [[prune]] table: there is nothing to vary".into());
    }
    if let Some(path) = &arguments.write {
        output::writable(path)?;
    }
    let device = device(&arguments.device, None)?;
    costs::install()?;
    let as_it_is = Method { name: String::new(), sets: Vec::new() };
    let sweep = Sweep {
        methods: match arguments.methods.is_empty() {
            true => vec![as_it_is],
            false => arguments.methods.clone(),
        },
        patterns: arguments.patterns.0.clone(),
        sparsities: arguments.sparsities.clone(),
        seeds: arguments.seeds,
        recipe,
    };
    let folder = arguments.run_dir.clone().unwrap_or_else(|| {
        let name = arguments.recipe.as_deref().and_then(Path::file_stem);
        PathBuf::from("sweeps").join(name.unwrap_or("quickstart".as_ref()))
    });
    let job = Job { sweep: &sweep, arguments, folder: &folder, device: &device };
    let time = arguments.budget.map(|time| Budget::Microseconds(1e6 * time.as_secs_f64()));
    match time.or(arguments.speedup.map(Budget::Speedup)) {
        Some(budget) => budget::run(job, budget),
        None if arguments.sensitivity => sensitivity::run(job),
        None => grid::run(job),
    }
}
