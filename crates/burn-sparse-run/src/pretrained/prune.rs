use std::path::Path;
use std::time::Instant;

use burn::module::Module;
use burn::tensor::Device;
use burn_sparse::calibrate::{Blocks, CalibrateConfig, CalibratedWeight, CalibrationStep};
use burn_sparse::checkpoint::{Checkpoint, Format};
use burn_sparse::pattern::{Pattern, PatternError, Retained};
use burn_sparse::prune::{Horizon, Plan, PruneConfig, Pruning};
use burn_sparse_models::huggingface::{Folder, ModelConfig, Weights};
use burn_sparse_models::{BertBlocks, LlamaBlocks};
use serde::Serialize;

use super::{CalibrationTexts, CalibrationTokens};
use crate::CalibrationRecord;

/// Calibration of a pretrained model.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// Score and repair.
    pub config: CalibrateConfig,
    /// Texts whose tokens run through the model.
    pub texts: CalibrationTexts,
}

/// Pruned matrix of a folder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrunedMatrix {
    /// Path in the module.
    pub name: String,
    /// Number of outputs.
    pub rows: usize,
    /// Size of the reduction.
    pub cols: usize,
    /// Pattern of the mask.
    pub pattern: String,
    /// Share of zeros of the mask.
    pub sparsity: f64,
    /// Share of `Σ|w|` of the dense weight that the mask retains.
    pub retained_l1: f64,
    /// Share of `Σw²` of the dense weight that the mask retains.
    pub retained_l2: f64,
    /// Seconds for the mask and the repair; `None` without calibration, which searches all masks together.
    pub seconds: Option<f64>,
}

/// Result of [`prune_folder`].
#[derive(Debug, Clone)]
pub struct PrunedFolder {
    /// The packed checkpoint that was written, or, if dense weights were written, that they were unpacked from.
    pub checkpoint: Checkpoint,
    /// Pruned matrices, by name.
    pub matrices: Vec<PrunedMatrix>,
    /// Record of the calibration; `None` without one.
    pub calibration: Option<CalibrationRecord>,
}

/// Folder to write.
#[derive(Debug, Clone, Copy)]
pub struct Output<'a> {
    /// Path of the folder, which must not hold a model yet.
    pub folder: &'a Path,
    /// `true` for dense weights with zeros, under the original names and in the original shards; `false` for a packed
    /// checkpoint.
    pub dense: bool,
}

impl<'a> Output<'a> {
    /// Writes a packed checkpoint.
    pub fn packed(folder: &'a Path) -> Self {
        Self { folder, dense: false }
    }
}

/// Prunes all matrices that `rule` selects except a separate head, in one shot without training, with `seed` for the
/// row-order search, and writes a folder: the weights, the configuration and the tokenizer. `on_step` is called after each
/// weight that is calibrated, and after each block that is reconstructed.
///
/// # Errors
/// Returns an error when the folder cannot be loaded, `out` is the same folder or holds a model, the rule does not fit the
/// folder's model, the calibration texts cannot be read, or the result cannot be written.
pub fn prune_folder(
    folder: &Folder,
    rule: &PruneConfig,
    seed: u64,
    calibration: Option<&Calibration>,
    out: Output<'_>,
    on_step: impl FnMut(CalibrationStep<'_>),
) -> Result<PrunedFolder, Box<dyn std::error::Error>> {
    write(folder, Task { rule, keep_all: false, seed }, calibration, out, on_step)
}

/// Rounds all matrices of a folder, except a separate head, to the integers of `calibration`, without pruning, and writes a
/// folder that runs in that form. See [`prune_folder`].
///
/// # Errors
/// Returns the same errors as [`prune_folder`], and an error when the calibration does not set the type to round to.
pub fn round_folder(
    folder: &Folder,
    calibration: &Calibration,
    out: &Path,
    on_step: impl FnMut(CalibrationStep<'_>),
) -> Result<PrunedFolder, Box<dyn std::error::Error>> {
    if calibration.config.values().is_none() {
        return Err("there is nothing to do: neither a sparsity nor integers to round to".into());
    }
    // Only what it selects counts.
    let rule = PruneConfig::new(Pattern::Unstructured {}, 0.5);
    let task = Task { rule: &rule, keep_all: true, seed: 0 };
    write(folder, task, Some(calibration), Output::packed(out), on_step)
}

#[derive(Clone, Copy)]
struct Task<'a> {
    rule: &'a PruneConfig,
    /// `true` to keep all weights that the rule selects.
    keep_all: bool,
    seed: u64,
}

fn write(
    folder: &Folder,
    task: Task<'_>,
    calibration: Option<&Calibration>,
    out: Output<'_>,
    on_step: impl FnMut(CalibrationStep<'_>),
) -> Result<PrunedFolder, Box<dyn std::error::Error>> {
    // Before the work.
    folder.refuse_models(out.folder)?;
    let device = Device::flex();
    let pruned = match folder.config() {
        ModelConfig::Bert(config) => {
            let tokens = calibration.map(|c| c.texts.sentences(folder, &device)).transpose()?;
            let model = folder.load(config.init(&device), Weights::Dense)?;
            let calibration = calibration.zip(tokens).map(|(calibration, tokens)| {
                Prepared::new(calibration, BertBlocks, tokens, |ids| model.features(ids))
            });
            prune(model.clone(), task, calibration, on_step)?
        }
        ModelConfig::Llama(config) => {
            let tokens = calibration.map(|c| c.texts.windows(folder, &device)).transpose()?;
            let head = if config.tied { &[][..] } else { &["head.*"] };
            let except = task.rule.except().iter().map(String::as_str).chain(head.iter().copied());
            let rule = task.rule.clone().with_except(except);
            let model = folder.load(config.init(&device), Weights::Dense)?;
            let calibration = calibration.zip(tokens).map(|(calibration, tokens)| {
                Prepared::new(calibration, LlamaBlocks, tokens, |ids| model.embed(ids))
            });
            prune(model.clone(), Task { rule: &rule, ..task }, calibration, on_step)?
        }
        _ => return Err("no such architecture can be pruned".into()),
    };
    match out.dense {
        true => folder.export(&pruned.checkpoint, out.folder)?,
        false => {
            let write = |weights: &Path| pruned.checkpoint.write(weights, Format::Packed);
            folder.create_copy(out.folder, write)?;
        }
    }
    Ok(pruned)
}

/// Calibration with the input states of the first block.
struct Prepared<B, S> {
    config: CalibrateConfig,
    samples: usize,
    blocks: B,
    states: Vec<S>,
    hash: String,
}

impl<B, S> Prepared<B, S> {
    fn new(
        calibration: &Calibration,
        blocks: B,
        tokens: CalibrationTokens,
        embed: impl Fn(burn::tensor::Tensor<2, burn::tensor::Int>) -> S,
    ) -> Self {
        Self {
            config: calibration.config,
            samples: calibration.texts.samples,
            blocks,
            states: tokens.batches.into_iter().map(embed).collect(),
            hash: tokens.hash,
        }
    }
}

fn prune<M: Module, B: Blocks<M>>(
    model: M,
    task: Task<'_>,
    calibration: Option<Prepared<B, B::State>>,
    on_step: impl FnMut(CalibrationStep<'_>),
) -> Result<PrunedFolder, Box<dyn std::error::Error>> {
    let started = Instant::now();
    let pruning = Pruning::new([task.rule.clone()]).with_seed(task.seed);
    let plan = Plan::new(pruning, &model, Horizon::steps(0))?;
    let plan = if task.keep_all { plan.keeping_all() } else { plan };
    let original = model.clone();
    let Some(Prepared { config, samples, blocks, states, hash }) = calibration else {
        let checkpoint = plan.attach(model)?.finish()?.checkpoint();
        let matrices = matrices(&original, &checkpoint, &[])?;
        return Ok(PrunedFolder { checkpoint, matrices, calibration: None });
    };
    let found = plan.calibrate(&model, &blocks, states, &config, on_step)?;
    let (weights, blocks) = (found.weights().to_vec(), found.blocks().to_vec());
    let scales = found.scales().clone();
    let checkpoint = match task.keep_all {
        true => Checkpoint::of_dense(&found.apply(model)),
        false => found.attach(model)?.finish()?.checkpoint(),
    };
    let mut checkpoint = checkpoint.with_scales(&scales)?;
    if let Some(integers) = config.values() {
        // Embeddings, and anything else that was not calibrated.
        checkpoint = checkpoint.with_values(integers)?;
    }
    let matrices = matrices(&original, &checkpoint, &weights)?;
    let seconds = started.elapsed().as_secs_f64();
    let record = CalibrationRecord { config, samples, hash, weights, blocks, seconds };
    let results = serde_json::json!({ "calibration": &record }).to_string();
    let provenance = checkpoint.provenance().clone().with_results(results);
    Ok(PrunedFolder {
        checkpoint: checkpoint.with_provenance(provenance),
        matrices,
        calibration: Some(record),
    })
}

/// Measures what the masks of a checkpoint retain of the dense model.
fn matrices<M: Module>(
    dense: &M,
    pruned: &Checkpoint,
    calibrated: &[CalibratedWeight],
) -> Result<Vec<PrunedMatrix>, PatternError> {
    let dense = Checkpoint::of_dense(dense);
    let mut matrices = Vec::new();
    for (name, entry) in pruned.packed() {
        let Some(weight) = dense.entries().get(name) else { continue };
        let weights = entry.view.to_matrix(&weight.stored());
        let retained = Retained::measure(&weights, &entry.packed.mask())?;
        matrices.push(PrunedMatrix {
            name: name.into(),
            rows: entry.view.rows(),
            cols: entry.view.cols(),
            pattern: entry.pattern.to_string(),
            sparsity: entry.packed.sparsity(),
            retained_l1: retained.l1,
            retained_l2: retained.l2,
            seconds: calibrated.iter().find(|weight| weight.name == name).map(|w| w.seconds),
        });
    }
    Ok(matrices)
}
