use std::path::PathBuf;

use burn::tensor::{Device, Distribution, Tensor};
use burn_sparse::pattern::{Packed, Pattern, Scores, Search};
use burn_sparse::report::{Bench, BenchRow};
use clap::Args;
use serde::Serialize;

use super::{Failure, checkpoint};
use crate::args::{Patterns, batch, patterns, shape};
use crate::device::Compute;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// A checkpoint, or the folder of a finished run.
    #[arg(required_unless_present = "shape", conflicts_with = "shape")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Layers instead of a checkpoint, as ROWSxCOLS (outputs x inputs), separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = shape, requires = "pattern")]
    pub(crate) shape: Vec<(usize, usize)>,
    /// Patterns, separated by commas: 'shfl-bw(vector=32),balanced(block=32)'.
    #[arg(long, value_parser = patterns)]
    pub(crate) pattern: Option<Patterns>,
    /// Shares of zeros, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "0.75")]
    pub(crate) sparsity: Vec<f64>,
    /// Tokens, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1,16,128", value_parser = batch)]
    pub(crate) batch: Vec<usize>,
    #[command(flatten)]
    pub(crate) compute: Compute,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn bench(arguments: &BenchArguments) -> Result<(), Failure> {
    let device = arguments.compute.device()?;
    let mut rows = Vec::new();
    for (name, pattern, packed) in layers(arguments, &device)? {
        let float = arguments.compute.dtype.unwrap_or_default().into();
        let bench = Bench::new(&packed, pattern, float, &device);
        for &batch in &arguments.batch {
            let row = bench.row(batch)?;
            eprintln!("{} x {}, batch {batch}: {:.2}x", row.rows, row.cols, row.speedup);
            rows.push(BenchRow { name: name.clone(), ..row });
        }
    }
    if arguments.json {
        return output::json(&Report { device: &arguments.compute.device, rows });
    }
    output::text(&table(&rows))
}

#[derive(Serialize)]
struct Report<'a> {
    device: &'a str,
    rows: Vec<BenchRow>,
}

/// A layer's name, pattern and packed weight.
type Layer = (Option<String>, Pattern, Packed);

/// The pruned layers of a checkpoint, or random ones of the shapes asked for.
fn layers(arguments: &BenchArguments, device: &Device) -> Result<Vec<Layer>, Failure> {
    if let Some(path) = &arguments.checkpoint {
        let (path, checkpoint) = checkpoint::read(path)?;
        let layers: Vec<Layer> = checkpoint
            .packed()
            .map(|(name, entry)| (Some(name.to_string()), entry.pattern, entry.packed.clone()))
            .collect();
        if layers.is_empty() {
            return Err(format!("{} holds no pruned layer to time", path.display()).into());
        }
        return Ok(layers);
    }
    let patterns = arguments.pattern.as_ref().map_or(&[][..], |patterns| &patterns.0);
    let mut layers = Vec::new();
    // All of it is checked before any of it takes memory.
    for &(rows, cols) in &arguments.shape {
        for pattern in patterns {
            for &sparsity in &arguments.sparsity {
                let sparsity = pattern.fixed_sparsity().unwrap_or(sparsity);
                pattern.target_zeros(rows, cols, sparsity)?;
            }
        }
    }
    for &(rows, cols) in &arguments.shape {
        let weights = Tensor::<1>::random([rows * cols], Distribution::Normal(0.0, 1.0), device);
        let weights: Vec<f32> = weights.into_data().convert::<f32>().try_into_vec()?;
        let scores: Vec<f32> = weights.iter().map(|weight| weight.abs()).collect();
        let scores = Scores::new(rows, cols, &scores)?;
        for &pattern in patterns {
            for &sparsity in &arguments.sparsity {
                let sparsity = pattern.fixed_sparsity().unwrap_or(sparsity);
                let found = pattern.project(&scores, sparsity, &Search::default())?;
                let order = found.row_order.as_ref();
                let packed = Packed::pack(&pattern, &weights, &found.mask, order)?;
                layers.push((None, pattern, packed));
            }
        }
    }
    Ok(layers)
}

fn table(rows: &[BenchRow]) -> String {
    let heading = [
        "layer",
        "rows x cols",
        "batch",
        "pattern",
        "sparsity",
        "dense",
        "sparse",
        "speed-up",
        "GFLOP/s kept",
        "of peak",
        "kernel",
        "because",
    ];
    let mut cells = vec![heading.map(String::from).to_vec()];
    cells.extend(rows.iter().map(|row| {
        vec![
            row.name.clone().unwrap_or("-".into()),
            format!("{} x {}", row.rows, row.cols),
            row.batch.to_string(),
            row.pattern.clone(),
            format!("{:.2} %", 100.0 * row.sparsity),
            format!("{:.1} us", row.dense_us),
            format!("{:.1} us", row.sparse_us),
            format!("{:.2}x", row.speedup),
            format!("{:.1}", row.kept_gflops),
            row.share_of_peak.map_or("-".into(), |share| format!("{:.0} %", 100.0 * share)),
            row.kernel.clone(),
            output::prediction(row.predicted),
        ]
    }));
    output::table(&cells)
}
