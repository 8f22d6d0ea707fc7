use std::path::PathBuf;

use burn_sparse::checkpoint::Format;
use burn_sparse_run::run::RunFolder;
use clap::Args;

use super::{Failure, checkpoint, pretrained};
use crate::args::{BadUsage, ExportFormat, Layout, Values};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// A checkpoint, the folder of a finished run, or the packed folder of a pretrained model; with --layout huggingface
    /// --format packed also a dense folder, or a name on the hub.
    pub(crate) checkpoint: PathBuf,
    /// Packed or dense weights, or the format of another tool.
    #[arg(long, value_enum)]
    pub(crate) format: ExportFormat,
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
}

pub(crate) fn export(arguments: &ExportArguments) -> Result<(), Failure> {
    if let Some(values) = arguments.values.filter(|values| values.integers().is_some())
        && arguments.format != ExportFormat::Packed
    {
        let name = values.name();
        let reason = format!("--values {name} needs --format packed: the other forms hold floats");
        return Err(BadUsage(reason).into());
    }
    if arguments.layout == Some(Layout::Huggingface) {
        return export_folder(arguments);
    }
    let format = match (arguments.format, arguments.layout) {
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
    let bytes = std::fs::metadata(&arguments.out)?.len();
    output::text(&format!("{}: {bytes} bytes", arguments.out.display()))
}

/// Writes a Hugging Face folder from that of a pretrained model, or of a run of one: with its shards, or with a packed
/// checkpoint.
fn export_folder(arguments: &ExportArguments) -> Result<(), Failure> {
    match arguments.format {
        ExportFormat::Packed => return export_packed_folder(arguments),
        ExportFormat::SparseBitmask => {
            let reason = "--layout huggingface needs --format dense or packed";
            return Err(BadUsage(reason.into()).into());
        }
        ExportFormat::Dense => {}
    }
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
    output::text(&format!("{}: {} tensors", arguments.out.display(), checkpoint.entries().len()))
}

/// Writes the folder with a packed checkpoint, even if its weights are dense.
fn export_packed_folder(arguments: &ExportArguments) -> Result<(), Failure> {
    let path = model_folder(arguments);
    let Some(folder) = pretrained::folder(&path)? else {
        return Err(format!("{}: expected the folder of a pretrained model", path.display()).into());
    };
    let mut checkpoint = folder.checkpoint()?;
    if let Some(values) = arguments.values {
        checkpoint = checkpoint.with_values(values)?;
    }
    let out =
        folder.create_copy(&arguments.out, |weights| checkpoint.write(weights, Format::Packed))?;
    let bytes = std::fs::metadata(&out)?.len();
    output::text(&format!("{}: {bytes} bytes", out.display()))
}

/// Returns the folder of the model: that of the run, or the named one.
fn model_folder(arguments: &ExportArguments) -> PathBuf {
    match RunFolder::new(&arguments.checkpoint).model() {
        model if model.is_dir() => model,
        _ => arguments.checkpoint.clone(),
    }
}
