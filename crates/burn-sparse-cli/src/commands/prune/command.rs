use burn_sparse::pattern::Distribution;
use burn_sparse_models::huggingface::Folder;

use super::file::prune_weights;
use super::folder::{prune_pretrained, round_pretrained};
use super::usage::usage;
use super::{PruneArguments, PruneFormat};
use crate::args::Layout;
use crate::commands::Failure;

pub(crate) fn prune(arguments: &PruneArguments) -> Result<(), Failure> {
    if let Some(values) = arguments.calibration.values.filter(|values| values.integers().is_none())
    {
        return Err(usage(format!("--values {}: expected w8a8 or w4a8", values.name())));
    }
    if arguments.calibration.values.is_some() && arguments.calibration.reconstruct > 0 {
        let reason = "--reconstruct trains weights, which would not stay the integers of --values";
        return Err(usage(reason.into()));
    }
    if arguments.calibration.values.is_some() && arguments.format == Some(PruneFormat::Dense) {
        return Err(usage("--format dense holds floats: --values has no effect on them".into()));
    }
    if arguments.distribution != Distribution::Global && arguments.cap.is_some() {
        return Err(usage("--cap is for --distribution global".into()));
    }
    if arguments.sparsity == Some(0.0) {
        return round_pretrained(arguments);
    }
    let Some(pattern) = arguments.pattern else {
        return Err(usage("--pattern is missing; only --sparsity 0 needs none".into()));
    };
    let sparsity = match (pattern.fixed_sparsity(), arguments.sparsity) {
        (Some(fixed), Some(given)) if (fixed - given).abs() > 1e-9 => {
            return Err(usage(format!(
                "--sparsity {given}: {pattern} fixes {fixed}; leave it out"
            )));
        }
        (Some(fixed), _) => fixed,
        (None, Some(given)) => given,
        (None, None) => return Err(usage(format!("--sparsity is missing, {pattern} needs one"))),
    };
    if arguments.layout == Layout::Huggingface {
        return Err(usage("--layout huggingface is that of a folder: name the folder".into()));
    }
    let (distribution, cap) = (arguments.distribution, arguments.cap());
    if distribution != Distribution::Uniform && pattern.fixed_sparsity().is_some() {
        return Err(usage(format!("--distribution: {pattern} fixes every sparsity; leave it out")));
    }
    if distribution == Distribution::Global && !(cap < 1.0 && cap >= sparsity) {
        return Err(usage(format!("--cap {cap}: expected {sparsity} or more, and below 1")));
    }
    if arguments.weights.is_dir() || Folder::is_name(&arguments.weights) {
        return prune_pretrained(arguments, pattern, sparsity);
    }
    if !arguments.calibrate.is_empty() || arguments.task.is_some() {
        return Err(usage(
            "--calibrate and --task need a model: name a Hugging Face folder".into(),
        ));
    }
    prune_weights(arguments, pattern, sparsity)
}
