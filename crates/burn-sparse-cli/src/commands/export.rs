use burn_sparse::checkpoint::Format;

use super::{Failure, checkpoint};
use crate::args::{ExportArguments, ExportFormat, Layout, bad_usage};
use crate::output;

pub(crate) fn export(arguments: &ExportArguments) -> Result<(), Failure> {
    let format = match (arguments.format, arguments.layout) {
        (ExportFormat::Packed, Layout::Burn) => Format::Packed,
        (ExportFormat::Packed, Layout::Pytorch) => {
            bad_usage("--layout pytorch needs --format dense: PyTorch has no packed form".into())
        }
        (ExportFormat::Dense, Layout::Burn) => Format::DenseBurn,
        (ExportFormat::Dense, Layout::Pytorch) => Format::DensePyTorch,
    };
    let (_, checkpoint) = checkpoint::read(&arguments.checkpoint)?;
    checkpoint.write(&arguments.out, format)?;
    let bytes = std::fs::metadata(&arguments.out)?.len();
    output::text(&format!("{}: {bytes} bytes", arguments.out.display()))
}
