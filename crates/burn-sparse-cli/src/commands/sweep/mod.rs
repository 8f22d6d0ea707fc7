//! `sweep`: a grid of settings, or the sensitivity of single weights.

mod arguments;
mod grid;
mod job;
mod sensitivity;

use std::path::{Path, PathBuf};

use burn_sparse_run::sweep::{Method, Sweep};

pub(crate) use arguments::SweepArguments;

use super::{Failure, recipe};
use crate::costs;
use crate::device::device;
use job::Job;

pub(crate) fn sweep(arguments: &SweepArguments) -> Result<(), Failure> {
    let recipe = recipe(arguments.recipe.as_deref(), &arguments.sets)?;
    if recipe.prune.is_empty() {
        return Err("the recipe has no [[prune]] table: there is nothing to vary".into());
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
    if arguments.sensitivity { sensitivity::run(job) } else { grid::run(job) }
}
