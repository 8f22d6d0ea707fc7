use std::fs::File;
use std::path::PathBuf;

use burn_sparse::checkpoint::{Checkpoint, Entry, write_atomically};
use burn_sparse::measure::plot;
use burn_sparse::pattern::format::Safetensors;
use burn_sparse::prune::Plan;
use burn_sparse_run::recipe::Recipe;
use clap::Args;
use serde::Serialize;

use super::{Failure, checkpoint};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    /// A checkpoint, the folder of a finished run, or the packed folder of a pretrained model.
    pub(crate) file: PathBuf,
    /// Draw every mask to an SVG file: as stored, in row order, and the number of columns that each group keeps.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn inspect(arguments: &InspectArguments) -> Result<(), Failure> {
    let (path, checkpoint) = checkpoint::read(&arguments.file)?;
    let results = checkpoint.provenance().results().map(serde_json::from_str).transpose()?;
    let results: serde_json::Value = results.unwrap_or_default();
    let summary = Summary {
        file: path.display().to_string(),
        bytes: std::fs::metadata(&path)?.len(),
        dense_bytes: checkpoint.entries().values().map(dense_bytes).sum(),
        // A recipe that this version cannot read is printed all the same.
        task: Recipe::of(&checkpoint).ok().flatten().map(|recipe| recipe.task),
        sparsity: checkpoint.sparsity(),
        tensors: tensors(&checkpoint, &Safetensors::open(File::open(&path)?)?),
        results,
        recipe: checkpoint.provenance().recipe().map(String::from),
        plan: checkpoint.provenance().plan().cloned(),
    };
    if let Some(path) = &arguments.plot {
        write_atomically(path, plot::masks(&checkpoint)?.as_bytes())
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        output::note(&format!("{}: the masks, drawn", path.display()));
    }
    if arguments.json { output::json(&summary) } else { print(&summary) }
}

#[derive(Serialize)]
struct Summary {
    file: String,
    bytes: u64,
    dense_bytes: usize,
    task: Option<String>,
    sparsity: f64,
    tensors: Vec<Tensor>,
    results: serde_json::Value,
    recipe: Option<String>,
    plan: Option<Plan>,
}

#[derive(Serialize)]
struct Tensor {
    name: String,
    layer: String,
    shape: Vec<usize>,
    pattern: Option<String>,
    /// Type of its values in the file.
    values: &'static str,
    sparsity: f64,
    /// Bits in the file per weight before pruning: values, indices and scales.
    bits: f64,
    mask_hash: Option<String>,
}

fn dense_bytes(entry: &Entry) -> usize {
    4 * entry.shape().iter().product::<usize>()
}

fn tensors(checkpoint: &Checkpoint, file: &Safetensors<File>) -> Vec<Tensor> {
    let one = |(name, entry): (&String, &Entry)| {
        let packed = match entry {
            Entry::Packed(packed) => Some(packed),
            Entry::Dense { .. } => None,
        };
        Tensor {
            name: name.clone(),
            layer: entry.layer().into(),
            shape: entry.shape(),
            pattern: packed.map(|entry| entry.pattern.to_string()),
            values: entry.value_type().name(),
            sparsity: packed.map_or(0.0, |entry| entry.packed.sparsity()),
            bits: bits(name, &entry.shape(), file),
            mask_hash: packed.map(|entry| entry.packed.mask_hash()),
        }
    };
    checkpoint.entries().iter().map(one).collect()
}

/// Returns the bits that a parameter takes in the file for each of its elements.
fn bits(parameter: &str, shape: &[usize], file: &Safetensors<File>) -> f64 {
    let of_it = |name: &str| {
        let rest = name.strip_prefix(parameter);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let arrays = file.tensors().iter().filter(|(name, _)| of_it(name));
    let bytes: usize = arrays.map(|(_, info)| info.data_offsets.1 - info.data_offsets.0).sum();
    8.0 * bytes as f64 / shape.iter().product::<usize>().max(1) as f64
}

fn print(summary: &Summary) -> Result<(), Failure> {
    let heading = [
        "tensor",
        "layer",
        "stored shape",
        "pattern",
        "values",
        "sparsity",
        "bits",
        "mask (verified)",
    ];
    let mut rows = vec![heading.map(String::from).to_vec()];
    rows.extend(summary.tensors.iter().map(|tensor| {
        let shape: Vec<String> = tensor.shape.iter().map(usize::to_string).collect();
        vec![
            tensor.name.clone(),
            // Empty if the weights were packed without a model.
            if tensor.layer.is_empty() { "-".into() } else { tensor.layer.clone() },
            shape.join(" x "),
            tensor.pattern.clone().unwrap_or("dense".into()),
            tensor.values.into(),
            format!("{:.2} %", 100.0 * tensor.sparsity),
            format!("{:.2}", tensor.bits),
            tensor.mask_hash.clone().unwrap_or("-".into()),
        ]
    }));
    let share = 100.0 * summary.bytes as f64 / summary.dense_bytes.max(1) as f64;
    output::text(&format!(
        "{}: {} bytes, {share:.1} % of the dense parameters' {}; sparsity {:.2} %\n\n{}\n\n\
         bits: in the file, for each weight before pruning\n\nresults\n{}\n\nrecipe\n{}\n\n{}",
        summary.file,
        summary.bytes,
        summary.dense_bytes,
        100.0 * summary.sparsity,
        output::table(&rows),
        serde_json::to_string_pretty(&summary.results)?,
        summary.recipe.as_deref().unwrap_or("none"),
        summary.plan.as_ref().map_or("no plan".into(), Plan::to_string),
    ))
}
