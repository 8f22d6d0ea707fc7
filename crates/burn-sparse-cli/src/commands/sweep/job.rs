use std::path::Path;

use burn::tensor::Device;
use burn_sparse_run::sweep::Sweep;

use super::SweepArguments;

/// A sweep, with its arguments, folder and device.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) sweep: &'a Sweep,
    pub(super) arguments: &'a SweepArguments,
    pub(super) folder: &'a Path,
    pub(super) device: &'a Device,
}
