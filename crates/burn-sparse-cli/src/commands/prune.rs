use std::path::PathBuf;
use std::time::Duration;

use burn_sparse::calibrate::{CalibrateConfig, Saliency};
use burn_sparse::oneshot::{OneShot, Orientation, PrunedTensor, prune_file};
use burn_sparse::pattern::{Distribution, Pattern};
use burn_sparse::prune::PruneConfig;
use burn_sparse_models::huggingface::{Folder, ModelConfig};
use burn_sparse_run::pretrained::{
    Calibration, CalibrationRecord, CalibrationTexts, PrunedFolder, prune_folder, round_folder,
};
use clap::Args;
use serde::Serialize;

use super::Failure;
use super::pretrained::PretrainedTask;
use crate::args::{BadUsage, Layout, Values, budget, distribution};
use crate::output;

/// Tokens of a window of a language model by default.
const DEFAULT_LENGTH: usize = 256;

#[derive(Debug, Args)]
pub(crate) struct PruneArguments {
    /// A safetensors file, or a Hugging Face folder or name: all linear weights of a folder except a head are pruned, and
    /// the result is written packed.
    pub(crate) weights: PathBuf,
    /// The pattern, as in 'shfl-bw(vector=32)'; none with --sparsity 0.
    #[arg(long)]
    pub(crate) pattern: Option<Pattern>,
    /// Share of zeros; n-of-m fixes its own. With 0, weights are only rounded (see --values).
    #[arg(long)]
    pub(crate) sparsity: Option<f64>,
    /// The file, or the folder, to write.
    #[arg(long)]
    pub(crate) out: PathBuf,
    /// Names of the tensors to prune, as globs [default: all float tensors with 2 or 4 axes].
    #[arg(long, value_name = "GLOB", default_value = "*", hide_default_value = true)]
    pub(crate) include: Vec<String>,
    /// Orientation of matrices: pytorch stores [out, in], burn [in, out].
    #[arg(long, value_enum, default_value = "pytorch", hide_possible_values = true)]
    pub(crate) layout: Layout,
    /// Seed of the row order search.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Search the row order of each tensor for this long, as in 30s or 2m.
    #[arg(long, value_name = "TIME", value_parser = budget)]
    pub(crate) budget: Option<Duration>,
    /// Distribution of the sparsity over the tensors: uniform, erdos-renyi, erdos-renyi-kernel (by shape) or global
    /// (one threshold).
    #[arg(long, value_name = "NAME", default_value = "uniform", value_parser = distribution)]
    pub(crate) distribution: Distribution,
    /// Highest sparsity that the global distribution gives a tensor.
    #[arg(long, default_value_t = 0.99)]
    pub(crate) cap: f64,
    /// Prune a folder by the inputs that its layers get from this text: a text file, with one sentence per line for a
    /// sentence embedder, or a file of STS-B. Repeat for more files.
    #[arg(long, value_name = "TEXT")]
    pub(crate) calibrate: Vec<PathBuf>,
    /// Task of the folder's model [default: that of its architecture].
    #[arg(long, value_enum)]
    pub(crate) task: Option<PretrainedTask>,
    #[command(flatten)]
    pub(crate) calibration: CalibrationArguments,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options that need --calibrate.
#[derive(Debug, Args)]
pub(crate) struct CalibrationArguments {
    /// Number of samples: windows of tokens, or sentences.
    #[arg(long, default_value_t = 128, requires = "calibrate")]
    pub(crate) samples: usize,
    /// Tokens of a window of a language model [default: 256].
    #[arg(long, requires = "calibrate")]
    pub(crate) length: Option<usize>,
    /// What ranks weights: magnitude, wanda or obs.
    #[arg(long, default_value = "obs", requires = "calibrate")]
    pub(crate) score: Saliency,
    /// Set the kept weights to their least-squares values.
    #[arg(long, requires = "calibrate")]
    pub(crate) repair: bool,
    /// Share of the dense model's outputs in the target of repair and reconstruction, from 0 to 1 [default: 0.5].
    #[arg(long, value_name = "SHARE", requires = "calibrate")]
    pub(crate) toward_dense: Option<f64>,
    /// Damping, as a share of the mean squared input [default: 0.01].
    #[arg(long, requires = "calibrate")]
    pub(crate) damp: Option<f64>,
    /// Train the kept weights of every block for this many steps toward the dense block's output.
    #[arg(long, value_name = "STEPS", default_value_t = 0, requires = "calibrate")]
    pub(crate) reconstruct: usize,
    /// Round weights to 8 or 4 bits (w8a8, w4a8), each compensating for those before it.
    #[arg(long, value_enum, requires = "calibrate", hide_possible_values = true)]
    pub(crate) values: Option<Values>,
}

impl CalibrationArguments {
    fn config(&self) -> CalibrateConfig {
        let mut config = CalibrateConfig::new()
            .with_score(self.score)
            .with_repair(self.repair)
            .with_reconstruct(self.reconstruct);
        if let Some(share) = self.toward_dense {
            config = config.with_toward_dense(share);
        }
        if let Some(damp) = self.damp {
            config = config.with_damp(damp);
        }
        if let Some(integers) = self.values.and_then(Values::integers) {
            config = config.with_values(integers);
        }
        config
    }
}

pub(crate) fn prune(arguments: &PruneArguments) -> Result<(), Failure> {
    if let Some(values) = arguments.calibration.values.filter(|values| values.integers().is_none())
    {
        return Err(usage(format!("--values {}: expected w8a8 or w4a8", values.name())));
    }
    if arguments.calibration.values.is_some() && arguments.calibration.reconstruct > 0 {
        let reason = "--reconstruct trains weights, which would not stay the integers of --values";
        return Err(usage(reason.into()));
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
    let orientation = match arguments.layout {
        Layout::Pytorch => Orientation::PyTorch,
        Layout::Burn => Orientation::Burn,
        Layout::Huggingface => {
            return Err(usage("--layout huggingface is that of a folder: name the folder".into()));
        }
    };
    let (distribution, cap) = (arguments.distribution, arguments.cap);
    if distribution != Distribution::Uniform && pattern.fixed_sparsity().is_some() {
        return Err(usage(format!("--distribution: {pattern} fixes every sparsity; leave it out")));
    }
    if distribution == Distribution::Global && !(cap < 1.0 && cap >= sparsity) {
        return Err(usage(format!("--cap {cap}: expected {sparsity} or more, and below 1")));
    }
    if arguments.weights.is_dir() || Folder::is_name(&arguments.weights) {
        return prune_pretrained(&Folder::find(&arguments.weights)?, pattern, sparsity, arguments);
    }
    if !arguments.calibrate.is_empty() || arguments.task.is_some() {
        return Err(usage(
            "--calibrate and --task need a model: name a Hugging Face folder".into(),
        ));
    }
    let mut options = OneShot::new(pattern, sparsity)
        .with_include(arguments.include.iter().cloned())
        .with_orientation(orientation)
        .with_seed(arguments.seed)
        .with_distribution(distribution)
        .with_cap(cap);
    if let Some(budget) = arguments.budget {
        options = options.with_budget(budget);
    }
    let tensors = prune_file(&arguments.weights, &arguments.out, &options, |tensor| {
        output::note(&format!("{}: {:.2} s", tensor.name, tensor.seconds));
    })?;
    if arguments.json { output::json(&Report { tensors: &tensors }) } else { print(&tensors) }
}

/// Refuses options that a folder has no use for.
fn refuse_file_options(arguments: &PruneArguments) -> Result<(), Failure> {
    let default = ["*"];
    let other = arguments.include != default || arguments.budget.is_some();
    match other || arguments.layout != Layout::Pytorch {
        true => Err(usage("--include, --budget and --layout are for single files".into())),
        false => Ok(()),
    }
}

fn prune_pretrained(
    folder: &Folder,
    pattern: Pattern,
    sparsity: f64,
    arguments: &PruneArguments,
) -> Result<(), Failure> {
    refuse_file_options(arguments)?;
    let rule = PruneConfig::new(pattern, sparsity)
        .with_distribution(arguments.distribution)
        .with_cap(arguments.cap);
    let calibration = calibration(folder, arguments)?;
    let (seed, out) = (arguments.seed, &arguments.out);
    let done = prune_folder(folder, &rule, seed, calibration.as_ref(), out, |step| {
        output::note(&output::calibrated(step));
    })?;
    let count = done.checkpoint.packed().count();
    report(done, count, arguments)
}

/// Rounds the weights of a pretrained model without pruning.
fn round_pretrained(arguments: &PruneArguments) -> Result<(), Failure> {
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
        let tensors = done.checkpoint.packed().map(|(name, entry)| FolderTensor {
            name: name.to_string(),
            rows: entry.view.rows(),
            cols: entry.view.cols(),
            pattern: entry.pattern.to_string(),
            sparsity: entry.packed.sparsity(),
        });
        let tensors = tensors.collect();
        return output::json(&FolderReport {
            sparsity,
            matrices: count,
            out,
            tensors,
            calibration,
        });
    }
    let mut text = format!(
        "{out}: {count} matrices at {:.2} % sparsity, not yet evaluated\n\n\
         try next:\n  \
         burn-sparse eval {out} --data-dir DATA      what it cost (DATA: the folder of the test set)",
        100.0 * sparsity
    );
    if arguments.calibration.values.is_none() {
        text += &format!(
            "\n  burn-sparse export {out} --layout huggingface --format packed --values w8a8 --out {out}-8"
        );
    }
    output::text(&text)
}

#[derive(Serialize)]
struct FolderReport {
    sparsity: f64,
    matrices: usize,
    out: String,
    tensors: Vec<FolderTensor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calibration: Option<CalibrationRecord>,
}

/// Pruned matrix of a folder.
#[derive(Serialize)]
struct FolderTensor {
    name: String,
    rows: usize,
    cols: usize,
    pattern: String,
    sparsity: f64,
}

fn usage(message: String) -> Failure {
    BadUsage(message).into()
}

#[derive(Serialize)]
struct Report<'a> {
    tensors: &'a [PrunedTensor],
}

fn print(tensors: &[PrunedTensor]) -> Result<(), Failure> {
    let heading =
        ["tensor", "rows x cols", "pattern", "sparsity", "kept |w|", "kept w^2", "seconds"];
    let mut rows = vec![heading.map(String::from).to_vec()];
    rows.extend(tensors.iter().map(|tensor| {
        vec![
            tensor.name.clone(),
            format!("{} x {}", tensor.rows, tensor.cols),
            tensor.pattern.clone(),
            format!("{:.2} %", 100.0 * tensor.sparsity),
            format!("{:.4}", tensor.retained_l1),
            format!("{:.4}", tensor.retained_l2),
            format!("{:.3}", tensor.seconds),
        ]
    }));
    output::text(&output::table(&rows))
}
