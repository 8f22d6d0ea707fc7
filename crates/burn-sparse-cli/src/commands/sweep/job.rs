use std::path::Path;

use burn::tensor::Device;
use burn_sparse::checkpoint::write_atomically;
use burn_sparse_run::recipe::Recipe;
use burn_sparse_run::sweep::{CandidateEvent, Sweep, SweepPlace};

use super::super::Failure;
use super::SweepArguments;
use crate::output;

/// A sweep, with its arguments, folder and device.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) sweep: &'a Sweep,
    pub(super) arguments: &'a SweepArguments,
    pub(super) folder: &'a Path,
    pub(super) device: &'a Device,
}

impl<'a> Job<'a> {
    pub(super) const INTERRUPTED: &'static str =
        "interrupted; the same command goes on with the dense model it has";

    pub(super) fn place(&self) -> SweepPlace<'a> {
        let data_dir = self.arguments.data_dir.as_deref();
        SweepPlace { data_dir, folder: self.folder, device: self.device }
    }

    /// Prints the progress of weights that are pruned alone.
    pub(super) fn watch(print: impl Fn(&str)) -> impl FnMut(CandidateEvent<'_>) {
        move |event| match event {
            CandidateEvent::Run(run, metric) => print(&format!("{run}: {metric}")),
            CandidateEvent::Candidate(of) => {
                print(&format!("{} {} {:.1} %", of.name, of.pattern, 100.0 * of.sparsity));
            }
            CandidateEvent::Timed([dense_us, packed_us]) => {
                print(&format!("model: {packed_us:.0} us, dense {dense_us:.0} us"));
            }
            _ => {}
        }
    }

    /// Writes a recipe.
    pub(super) fn write(recipe: &Recipe, path: &Path) -> Result<(), Failure> {
        write_atomically(path, recipe.to_toml().as_bytes())
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        let (path, weights) = (path.display(), recipe.prune.len());
        output::note(&format!("{path}: weights pruned: {weights}; next: burn-sparse train {path}"));
        Ok(())
    }
}
