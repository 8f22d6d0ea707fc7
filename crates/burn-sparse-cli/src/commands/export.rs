use std::path::{Path, PathBuf};

use burn_sparse::checkpoint::{Checkpoint, Format};
use burn_sparse_run::run::RunFolder;
use clap::Args;
use serde::Serialize;

use super::{Failure, checkpoint, pretrained};
use crate::args::{BadUsage, ExportFormat, Layout, Values};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// A checkpoint, the folder of a finished run, or the packed folder of a pretrained model; with --layout huggingface
    /// --format packed also a dense folder, or a name on the hub.
    pub(crate) checkpoint: PathBuf,
    /// Packed or dense weights, or the format of another tool [default: dense with --layout huggingface].
    #[arg(long, value_enum, required_unless_present = "layout")]
    pub(crate) format: Option<ExportFormat>,
    /// The names and orientation of weights [default: burn; pytorch for sparse-bitmask].
    #[arg(long, value_enum)]
    pub(crate) layout: Option<Layout>,
    /// The type of the values [default: as they are]; w8a8 stores linear layers, 2D convolutions and embeddings in 8
    /// bits, w4a8 linear layers in 4 and the others in 8.
    #[arg(long, value_enum)]
    pub(crate) values: Option<Values>,
    /// The file to write; a folder with --layout huggingface.
    #[arg(long)]
    pub(crate) out: PathBuf,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn export(arguments: &ExportArguments) -> Result<(), Failure> {
    let in_folder = arguments.layout == Some(Layout::Huggingface);
    let format = match arguments.format {
        None if in_folder => ExportFormat::Dense,
        None => {
            return Err(
                BadUsage("--format is missing: packed, dense or sparse-bitmask".into()).into()
            );
        }
        Some(format) => format,
    };
    if let Some(values) = arguments.values.filter(|values| values.integers().is_some())
        && format != ExportFormat::Packed
    {
        let name = values.name();
        let reason = format!("--values {name} needs --format packed: the other forms hold floats");
        return Err(BadUsage(reason).into());
    }
    let written = match (in_folder, format) {
        (false, _) => export_file(arguments, format)?,
        (true, ExportFormat::Packed) => export_packed_folder(arguments)?,
        (true, ExportFormat::Dense) => export_dense_folder(arguments)?,
        (true, ExportFormat::SparseBitmask) => {
            let reason = "--layout huggingface needs --format dense or packed";
            return Err(BadUsage(reason.into()).into());
        }
    };
    if arguments.json {
        return output::json(&written);
    }
    let Written { out, tensors, bytes } = written;
    output::text(&format!("{out}: {tensors} tensors, {bytes} bytes"))
}

/// Report on an export.
#[derive(Serialize)]
struct Written {
    out: String,
    tensors: usize,
    /// Size of all files of weights.
    bytes: u64,
}

impl Written {
    fn of(checkpoint: &Checkpoint, out: &Path, weights: &[PathBuf]) -> Result<Self, Failure> {
        let sizes = weights.iter().map(|path| Ok(std::fs::metadata(path)?.len()));
        let bytes = sizes.sum::<std::io::Result<u64>>()?;
        let tensors = checkpoint.entries().len();
        Ok(Self { out: out.display().to_string(), tensors, bytes })
    }
}

fn export_file(arguments: &ExportArguments, format: ExportFormat) -> Result<Written, Failure> {
    let format = match (format, arguments.layout) {
        (ExportFormat::Packed, None | Some(Layout::Burn)) => Format::Packed,
        (ExportFormat::Packed, Some(_)) => {
            return Err(BadUsage(
                "--layout pytorch needs --format dense: PyTorch has no packed form".into(),
            )
            .into());
        }
        (ExportFormat::Dense, None | Some(Layout::Burn)) => Format::DenseBurn,
        (ExportFormat::Dense, Some(_)) => Format::DensePyTorch,
        (ExportFormat::SparseBitmask, None | Some(Layout::Pytorch)) => Format::SparseBitmask,
        (ExportFormat::SparseBitmask, Some(_)) => {
            return Err(BadUsage(
                "--layout burn: sparse-bitmask files are in PyTorch's layout".into(),
            )
            .into());
        }
    };
    let (_, mut checkpoint) = checkpoint::read(&arguments.checkpoint)?;
    if let Some(values) = arguments.values {
        checkpoint = checkpoint.with_values(values)?;
    }
    checkpoint.write(&arguments.out, format)?;
    Written::of(&checkpoint, &arguments.out, std::slice::from_ref(&arguments.out))
}

/// Writes a Hugging Face folder of dense weights from the packed folder of a pretrained model, or of a run of one, with its
/// names and shards.
fn export_dense_folder(arguments: &ExportArguments) -> Result<Written, Failure> {
    let path = model_folder(arguments);
    let packed = match pretrained::folder(&path)? {
        Some(folder) => folder.packed()?.map(|checkpoint| (folder, checkpoint)),
        None => None,
    };
    let Some((folder, mut checkpoint)) = packed else {
        let path = arguments.checkpoint.display();
        return Err(format!(
            "{path}: expected the packed folder of a pretrained model, as `prune` and `train` write it"
        )
        .into());
    };
    if let Some(values) = arguments.values {
        checkpoint = checkpoint.with_values(values)?;
    }
    folder.export(&checkpoint, &arguments.out)?;
    let files = std::fs::read_dir(&arguments.out)?;
    let mut weights = files.map(|file| Ok(file?.path())).collect::<std::io::Result<Vec<_>>>()?;
    weights.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
    Written::of(&checkpoint, &arguments.out, &weights)
}

/// Writes the folder with a packed checkpoint, even if its weights are dense.
fn export_packed_folder(arguments: &ExportArguments) -> Result<Written, Failure> {
    let path = model_folder(arguments);
    let Some(folder) = pretrained::folder(&path)? else {
        return Err(format!("{}: expected the folder of a pretrained model", path.display()).into());
    };
    let mut checkpoint = folder.checkpoint()?;
    if let Some(values) = arguments.values {
        checkpoint = checkpoint.with_values(values)?;
    }
    let weights =
        folder.create_copy(&arguments.out, |weights| checkpoint.write(weights, Format::Packed))?;
    Written::of(&checkpoint, &arguments.out, &[weights])
}

/// Returns the folder of the model: that of the run, or the named one.
fn model_folder(arguments: &ExportArguments) -> PathBuf {
    let path = &arguments.checkpoint;
    match RunFolder::new(path).model() {
        model if !path.join("config.json").exists() && model.is_dir() => model,
        _ => path.clone(),
    }
}
