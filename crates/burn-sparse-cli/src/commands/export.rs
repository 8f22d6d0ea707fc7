use std::path::PathBuf;

use burn_sparse::checkpoint::Format;
use burn_sparse_run::run::RunFolder;
use clap::Args;

use super::{Failure, checkpoint, pretrained};
use crate::args::{BadUsage, Dtype, ExportFormat, Layout};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// A checkpoint, the folder of a finished run, or the packed folder of a pretrained model.
    pub(crate) checkpoint: PathBuf,
    /// Packed or dense weights, or those of another tool.
    #[arg(long, value_enum)]
    pub(crate) format: ExportFormat,
    /// The names and orientation of dense weights [default: burn].
    #[arg(long, value_enum)]
    pub(crate) layout: Option<Layout>,
    /// The type of the values; two-byte ones halve the file [default: as they are].
    #[arg(long, value_enum)]
    pub(crate) dtype: Option<Dtype>,
    /// The file to write; a folder with --layout huggingface.
    #[arg(long)]
    pub(crate) out: PathBuf,
}

pub(crate) fn export(arguments: &ExportArguments) -> Result<(), Failure> {
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
    if let Some(dtype) = arguments.dtype {
        checkpoint = checkpoint.with_float(dtype.into())?;
    }
    checkpoint.write(&arguments.out, format)?;
    let bytes = std::fs::metadata(&arguments.out)?.len();
    output::text(&format!("{}: {bytes} bytes", arguments.out.display()))
}

/// Writes a Hugging Face folder from the packed one of a pretrained model, or of a run with one.
fn export_folder(arguments: &ExportArguments) -> Result<(), Failure> {
    if arguments.format != ExportFormat::Dense {
        let reason = "--layout huggingface needs --format dense: transformers reads no other form";
        return Err(BadUsage(reason.into()).into());
    }
    let path = match RunFolder::new(&arguments.checkpoint).model() {
        model if model.is_dir() => model,
        _ => arguments.checkpoint.clone(),
    };
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
    if let Some(dtype) = arguments.dtype {
        checkpoint = checkpoint.with_float(dtype.into())?;
    }
    folder.export(&checkpoint, &arguments.out)?;
    output::text(&format!("{}: {} tensors", arguments.out.display(), checkpoint.entries().len()))
}
