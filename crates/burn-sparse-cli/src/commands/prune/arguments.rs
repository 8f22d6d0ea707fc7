use std::path::PathBuf;
use std::time::Duration;

use burn_sparse::calibrate::{CalibrateConfig, Saliency};
use burn_sparse::pattern::{Distribution, Pattern};
use clap::{Args, ValueEnum};

use crate::args::{Layout, Values, budget, distribution};
use crate::commands::pretrained::PretrainedTask;

const CALIBRATION: &str = "Calibration (needs --calibrate)";
const FILES: &str = "Files only";

/// Form of pruned weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PruneFormat {
    /// A packed checkpoint, which stores only the kept weights.
    Packed,
    /// Dense tensors with zeros, under the original names and in the original shards.
    Dense,
}

#[derive(Debug, Args)]
pub(crate) struct PruneArguments {
    /// A Hugging Face folder or name, of which all linear weights except a head are pruned; or a safetensors file, or the index
    /// of a sharded one (model.safetensors.index.json), of any model.
    pub(crate) weights: PathBuf,
    /// Pattern: unstructured, balanced(block=32), n-of-m(2,4), shfl-bw(vector=32), vector-wise(vector=32), block-wise(block=32)
    /// or hinm(vector=32,keep=2,of=4); none with --sparsity 0.
    #[arg(long)]
    pub(crate) pattern: Option<Pattern>,
    /// Sparsity: the share of weights set to zero, 0.75 for 75 %; n-of-m fixes its own. With 0, weights are only quantized (see
    /// --values).
    #[arg(long)]
    pub(crate) sparsity: Option<f64>,
    /// The file, or the folder, to write; a folder for a sharded file of dense tensors.
    #[arg(long)]
    pub(crate) out: PathBuf,
    /// Packed weights, which run on sparse kernels, or dense ones with zeros [default: packed for a folder, dense for a file].
    #[arg(long, value_enum)]
    pub(crate) format: Option<PruneFormat>,
    /// Names of the tensors to prune, as globs [default: all float tensors with 2 or 4 axes].
    #[arg(
        long,
        value_name = "GLOB",
        default_value = "*",
        hide_default_value = true,
        help_heading = FILES
    )]
    pub(crate) include: Vec<String>,
    /// Orientation of matrices: pytorch stores [out, in], burn [in, out].
    #[arg(
        long,
        value_enum,
        default_value = "pytorch",
        hide_possible_values = true,
        help_heading = FILES
    )]
    pub(crate) layout: Layout,
    /// Seed of the row order search.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Search the row order of each tensor for this long, as in 30s or 2m.
    #[arg(long, value_name = "TIME", value_parser = budget, help_heading = FILES)]
    pub(crate) budget: Option<Duration>,
    /// Distribution of the sparsity over the tensors: uniform, erdos-renyi, erdos-renyi-kernel (by shape) or global
    /// (one threshold).
    #[arg(long, value_name = "NAME", default_value = "uniform", value_parser = distribution)]
    pub(crate) distribution: Distribution,
    /// Highest sparsity that the global distribution gives a tensor [default: 0.99].
    #[arg(long)]
    pub(crate) cap: Option<f64>,
    /// Prune a folder by the inputs that its layers get from this text: a text file, with one sentence per line for a
    /// sentence embedder, or a file of STS-B. Repeat for more files.
    #[arg(long, value_name = "TEXT", help_heading = CALIBRATION)]
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
#[command(next_help_heading = CALIBRATION)]
pub(crate) struct CalibrationArguments {
    /// Number of samples: windows of tokens, or sentences.
    #[arg(long, default_value_t = 128, requires = "calibrate")]
    pub(crate) samples: usize,
    /// Tokens of a window of a language model [default: 256].
    #[arg(long, requires = "calibrate")]
    pub(crate) length: Option<usize>,
    /// Score that ranks weights: magnitude, wanda or obs.
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
    /// Quantize weights to 8 or 4 bits (w8a8, w4a8) with GPTQ: each weight compensates for the rounding errors of those before it.
    #[arg(long, value_enum, requires = "calibrate", hide_possible_values = true)]
    pub(crate) values: Option<Values>,
}

impl PruneArguments {
    /// Returns the highest sparsity of a tensor.
    pub(super) fn cap(&self) -> f64 {
        self.cap.unwrap_or(0.99)
    }
}

impl CalibrationArguments {
    pub(super) fn config(&self) -> CalibrateConfig {
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
