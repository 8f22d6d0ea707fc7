use burn_sparse::pattern::{Distribution, Pattern};
use burn_sparse::prune::PruneConfig;
use burn_sparse_models::huggingface::{Folder, ModelConfig};
use burn_sparse_run::CalibrationRecord;
use burn_sparse_run::pretrained::{
    Calibration, CalibrationTexts, Output, PrunedFolder, PrunedMatrix, prune_folder, round_folder,
};
use serde::Serialize;

use super::arguments::CalibrationArguments;
use super::usage::usage;
use super::{PruneArguments, PruneFormat};
use crate::args::Layout;
use crate::commands::Failure;
use crate::commands::pretrained::PretrainedTask;
use crate::output;

/// Tokens of a window of a language model by default.
const DEFAULT_LENGTH: usize = 256;

/// Refuses options that a folder has no use for.
fn refuse_file_options(arguments: &PruneArguments) -> Result<(), Failure> {
    let default = ["*"];
    let other = arguments.include != default || arguments.budget.is_some();
    match other || arguments.layout != Layout::Pytorch {
        true => Err(usage("--include, --budget and --layout are for single files".into())),
        false => Ok(()),
    }
}

/// Prunes the linear weights of a pretrained model.
pub(super) fn prune_pretrained(
    arguments: &PruneArguments,
    pattern: Pattern,
    sparsity: f64,
) -> Result<(), Failure> {
    refuse_file_options(arguments)?;
    let folder = Folder::find(&arguments.weights)?;
    let rule = PruneConfig::new(pattern, sparsity)
        .with_distribution(arguments.distribution)
        .with_cap(arguments.cap());
    let calibration = calibration(&folder, arguments)?;
    let dense = arguments.format == Some(PruneFormat::Dense);
    let (seed, out) = (arguments.seed, Output { folder: &arguments.out, dense });
    let done = prune_folder(&folder, &rule, seed, calibration.as_ref(), out, |step| {
        output::note(&output::calibrated(step));
    })?;
    let count = done.checkpoint.packed().count();
    report(done, count, arguments)
}

/// Rounds the weights of a pretrained model without pruning.
pub(super) fn round_pretrained(arguments: &PruneArguments) -> Result<(), Failure> {
    if let Some(pattern) = arguments.pattern {
        return Err(usage(format!("--pattern {pattern}: --sparsity 0 prunes nothing")));
    }
    refuse_file_options(arguments)?;
    if arguments.distribution != Distribution::Uniform {
        return Err(usage("--distribution: --sparsity 0 prunes nothing".into()));
    }
    if arguments.calibration.values.is_none() {
        return Err(usage(
            "--sparsity 0 only rounds weights: it needs --calibrate and --values".into(),
        ));
    }
    let folder = Folder::find(&arguments.weights)?;
    let Some(calibration) = calibration(&folder, arguments)? else {
        return Err(usage("--values needs --calibrate".into()));
    };
    let done = round_folder(&folder, &calibration, &arguments.out, |step| {
        output::note(&output::calibrated(step));
    })?;
    let count = done.calibration.as_ref().map_or(0, |calibration| calibration.weights.len());
    report(done, count, arguments)
}

fn calibration(
    folder: &Folder,
    arguments: &PruneArguments,
) -> Result<Option<Calibration>, Failure> {
    PretrainedTask::of(folder, arguments.task)?;
    let CalibrationArguments { samples, length, repair, toward_dense, reconstruct, .. } =
        arguments.calibration;
    if toward_dense.is_some() && !repair && reconstruct == 0 {
        return Err(usage("--toward-dense needs --repair or --reconstruct".into()));
    }
    let reads_windows = matches!(folder.config(), ModelConfig::Llama(_));
    if length.is_some() && !reads_windows {
        return Err(usage("--length is for language models; an embedder reads sentences".into()));
    }
    let length = length.unwrap_or(DEFAULT_LENGTH);
    if samples == 0 || length < 2 {
        return Err(usage("--samples and --length: expected 1 and 2 or more".into()));
    }
    let context = folder.config().context();
    if reads_windows && length > context {
        return Err(usage(format!("--length {length}: the model's context is {context}")));
    }
    Ok((!arguments.calibrate.is_empty()).then(|| Calibration {
        config: arguments.calibration.config(),
        texts: CalibrationTexts {
            files: arguments.calibrate.clone(),
            samples,
            length,
            seed: arguments.seed,
        },
    }))
}

/// Reports the result for `count` matrices.
fn report(done: PrunedFolder, count: usize, arguments: &PruneArguments) -> Result<(), Failure> {
    let (sparsity, calibration) = (done.checkpoint.sparsity(), done.calibration);
    let out = arguments.out.display().to_string();
    if arguments.json {
        return output::json(&FolderReport {
            sparsity,
            matrices: count,
            out,
            tensors: done.matrices,
            calibration,
        });
    }
    let folder = out.trim_end_matches('/');
    let (quoted, in_8) = (output::quoted(folder), output::quoted(&format!("{folder}-8")));
    let mut text = format!(
        "{out}: {count} matrices at {:.2} % sparsity, not yet evaluated\n\n\
         try next:\n  \
         burn-sparse eval {quoted} --data-dir DATA      what it cost (DATA: the folder of the test set)",
        100.0 * sparsity
    );
    if arguments.calibration.values.is_none() && arguments.format != Some(PruneFormat::Dense) {
        text += &format!(
            "\n  burn-sparse export {quoted} --layout huggingface --format packed --values w8a8 --out {in_8}"
        );
    }
    output::text(&text)
}

#[derive(Serialize)]
struct FolderReport {
    sparsity: f64,
    matrices: usize,
    out: String,
    tensors: Vec<PrunedMatrix>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calibration: Option<CalibrationRecord>,
}
