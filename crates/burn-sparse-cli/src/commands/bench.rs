use std::path::PathBuf;

use burn::tensor::{Device, Distribution, Tensor};
use burn_sparse::checkpoint::{FloatType, ValueType};
use burn_sparse::measure::{Bench, BenchRow, Passes, StepParts};
use burn_sparse::pattern::{Packed, Pattern, Scores, Search};
use clap::Args;
use serde::Serialize;

use super::{Failure, checkpoint};
use crate::args::{BadUsage, Patterns, batch, patterns, shape};
use crate::costs;
use crate::device::Compute;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// A checkpoint, or the folder of a finished run.
    #[arg(required_unless_present = "shape", conflicts_with = "shape")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Random layers instead of a checkpoint, as ROWSxCOLS (outputs x inputs), separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = shape, requires = "pattern")]
    pub(crate) shape: Vec<(usize, usize)>,
    /// Patterns, separated by commas: 'shfl-bw(vector=32),balanced(block=32)'.
    #[arg(long, value_parser = patterns, conflicts_with = "checkpoint")]
    pub(crate) pattern: Option<Patterns>,
    /// Sparsities, separated by commas: shares of weights set to zero.
    #[arg(long, value_delimiter = ',', default_value = "0.75", conflicts_with = "checkpoint")]
    pub(crate) sparsity: Vec<f64>,
    /// Batch sizes in tokens, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1,16,128", value_parser = batch)]
    pub(crate) batch: Vec<usize>,
    /// Time a forward and a backward pass, as fine-tuning runs them.
    #[arg(long)]
    pub(crate) training: bool,
    #[command(flatten)]
    pub(crate) compute: Compute,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn bench(arguments: &BenchArguments) -> Result<(), Failure> {
    let mut device = arguments.compute.device()?;
    if arguments.training {
        device = device.autodiff();
    }
    costs::install()?;
    let mut rows = Vec::new();
    let layers = layers(arguments, &device)?;
    for layer in &layers {
        for &batch in &arguments.batch {
            refuse_huge(batch, layer.packed.rows().max(layer.packed.cols()))?;
        }
    }
    if layers.iter().any(|layer| layer.is_convolution) {
        output::note(
            "convolutions are timed as the product of their weight; `burn-sparse report` times them as they are",
        );
    }
    let values_of = |layer: &Layer| arguments.compute.values.map_or(layer.values, ValueType::from);
    let is_integer = |layer: &&Layer| !matches!(values_of(layer), ValueType::Float(_));
    if arguments.training
        && let Some(layer) = layers.iter().find(is_integer)
    {
        return Err(BadUsage(match (arguments.compute.values, &layer.name) {
            (None, Some(name)) => {
                format!("--training needs floats, {name} is stored in fewer bits: add --values f32")
            }
            _ => "--values w8a8 and w4a8: training needs floats".into(),
        })
        .into());
    }
    for layer in layers {
        let values = values_of(&layer);
        let Layer { name, pattern, packed, .. } = layer;
        let bench = Bench::new(&packed, pattern, values, &device);
        for &batch in &arguments.batch {
            let mut row = bench.row(batch)?;
            output::note(&progress(&row));
            row.name.clone_from(&name);
            rows.push(row);
        }
    }
    if arguments.json {
        return output::json(&Report { device: &arguments.compute.device, rows });
    }
    output::text(&table(&rows))
}

/// Formats the speed of a row, printed while the benchmark runs.
fn progress(row: &BenchRow) -> String {
    let BenchRow {
        rows, cols, batch, pattern, sparsity, dense_us, sparse_us, speedup, kernel, ..
    } = row;
    let percent = 100.0 * sparsity;
    let passes = row.passes.map_or(String::new(), |Passes { dense, sparse, .. }| {
        let part = |name: &str, part: fn(&StepParts) -> f64| {
            format!("{name} {:.1} -> {:.1} us", part(&dense), part(&sparse))
        };
        let parts = [
            part("forward", |passes| passes.forward_us),
            part("dx", |passes| passes.input_gradient_us),
            part("dw", |passes| passes.weight_gradient_us),
        ];
        format!(" ({})", parts.join(", "))
    });
    format!(
        "{rows} x {cols}, {pattern} at {percent:.1} %, batch {batch}: {speedup:.2}x, {dense_us:.1} -> {sparse_us:.1} \
         us{passes}, {kernel}"
    )
}

#[derive(Serialize)]
struct Report<'a> {
    device: &'a str,
    rows: Vec<BenchRow>,
}

/// A layer to time.
struct Layer {
    name: Option<String>,
    pattern: Pattern,
    packed: Packed,
    /// Type of its values in the checkpoint.
    values: ValueType,
    is_convolution: bool,
}

/// Returns the pruned layers of a checkpoint, or random ones of the requested shapes.
fn layers(arguments: &BenchArguments, device: &Device) -> Result<Vec<Layer>, Failure> {
    if let Some(path) = &arguments.checkpoint {
        let (path, checkpoint) = checkpoint::read(path)?;
        let layers: Vec<Layer> = checkpoint
            .packed()
            .map(|(name, entry)| Layer {
                name: Some(name.to_string()),
                pattern: entry.pattern,
                packed: entry.packed.clone(),
                values: entry.value_type(),
                is_convolution: entry.view.is_convolution(),
            })
            .collect();
        if layers.is_empty() {
            return Err(format!("{} holds no pruned layer to time", path.display()).into());
        }
        return Ok(layers);
    }
    let patterns = arguments.pattern.as_ref().map_or(&[][..], |patterns| &patterns.0);
    let mut layers = Vec::new();
    // Checks everything before any of it takes memory.
    for &(rows, cols) in &arguments.shape {
        refuse_huge(rows, cols)?;
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
            let fixed = pattern.fixed_sparsity().map(|fixed| vec![fixed]);
            for &sparsity in fixed.as_ref().unwrap_or(&arguments.sparsity) {
                let found = pattern.project(&scores, sparsity, &Search::default())?;
                let order = found.row_order.as_ref();
                let packed = Packed::pack(&pattern, &weights, &found.mask, order)?;
                let values = FloatType::F32.into();
                layers.push(Layer { name: None, pattern, packed, values, is_convolution: false });
            }
        }
    }
    Ok(layers)
}

/// Largest number of elements of a timed matrix: 8 GB of f32.
const LARGEST: usize = 1 << 31;

fn refuse_huge(rows: usize, cols: usize) -> Result<(), Failure> {
    match rows.checked_mul(cols) {
        Some(numbers) if numbers <= LARGEST => Ok(()),
        _ => Err(format!(
            "a matrix of {rows} x {cols} is too large to time: at most {LARGEST} numbers"
        )
        .into()),
    }
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
            output::prediction(row.predicted, None),
        ]
    }));
    output::table(&cells)
}
