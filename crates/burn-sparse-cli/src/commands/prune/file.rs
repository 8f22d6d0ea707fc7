use burn_sparse::checkpoint::Format;
use burn_sparse::oneshot::{OneShot, Orientation, PrunedTensor, pack_file, prune_file};
use burn_sparse::pattern::Pattern;
use serde::Serialize;

use super::{PruneArguments, PruneFormat};
use crate::args::Layout;
use crate::commands::Failure;
use crate::output;

/// Prunes the tensors of a file, or of the shards that an index names.
pub(super) fn prune_weights(
    arguments: &PruneArguments,
    pattern: Pattern,
    sparsity: f64,
) -> Result<(), Failure> {
    let orientation = match arguments.layout {
        Layout::Burn => Orientation::Burn,
        Layout::Pytorch | Layout::Huggingface => Orientation::PyTorch,
    };
    let mut options = OneShot::new(pattern, sparsity)
        .with_include(arguments.include.iter().cloned())
        .with_orientation(orientation)
        .with_seed(arguments.seed)
        .with_distribution(arguments.distribution)
        .with_cap(arguments.cap());
    if let Some(budget) = arguments.budget {
        options = options.with_budget(budget);
    }
    let each = |tensor: &PrunedTensor| {
        output::note(&format!("{}: {:.2} s", tensor.name, tensor.seconds));
    };
    let (weights, out) = (&arguments.weights, &arguments.out);
    let tensors = match arguments.format {
        Some(PruneFormat::Packed) => {
            output::writable(out)?;
            let (checkpoint, tensors) = pack_file(weights, &options, each)?;
            checkpoint.write(out, Format::Packed)?;
            tensors
        }
        None | Some(PruneFormat::Dense) => prune_file(weights, out, &options, each)?,
    };
    if arguments.json { output::json(&Report { tensors: &tensors }) } else { print(&tensors) }
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
