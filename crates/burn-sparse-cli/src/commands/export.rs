use std::path::PathBuf;

use burn_sparse::checkpoint::Format;
use clap::Args;

use super::{Failure, checkpoint};
use crate::args::{BadUsage, Dtype, ExportFormat, Layout};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// A checkpoint, or the folder of a finished run.
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
    /// The file to write.
    #[arg(long)]
    pub(crate) out: PathBuf,
}

pub(crate) fn export(arguments: &ExportArguments) -> Result<(), Failure> {
    let format = match (arguments.format, arguments.layout) {
        (ExportFormat::Packed, None | Some(Layout::Burn)) => Format::Packed,
        (ExportFormat::Packed, Some(Layout::Pytorch)) => {
            return Err(BadUsage(
                "--layout pytorch needs --format dense: PyTorch has no packed form".into(),
            )
            .into());
        }
        (ExportFormat::Dense, None | Some(Layout::Burn)) => Format::DenseBurn,
        (ExportFormat::Dense, Some(Layout::Pytorch)) => Format::DensePyTorch,
        (ExportFormat::SparseBitmask, None | Some(Layout::Pytorch)) => Format::SparseBitmask,
        (ExportFormat::SparseBitmask, Some(Layout::Burn)) => {
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
