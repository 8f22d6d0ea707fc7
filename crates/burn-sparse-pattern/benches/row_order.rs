//! Benchmarks the search for a Shfl-BW row order (kept weights and time) against no shuffle and the published search.
//!
//! ```text
//! cargo bench -p burn-sparse-pattern --bench row_order -- [--global] [--budget SECONDS] [FILE.safetensors ...]
//! ```
//!
//! `--global`: one threshold for the matrix instead of equally many columns in every group.
//! Without files: matrices of every kind up to 16384 x 4096. With files: every f32 matrix in them, as
//! PyTorch stores it, with at least two groups. The published search runs up to 1024 rows.

#[path = "../tests/matrices/mod.rs"]
mod matrices;
#[path = "../tests/published/mod.rs"]
mod published;

use std::time::{Duration, Instant};

use burn_sparse_pattern::{Pattern, Projection, Retained, Scores, Search, Start};
use matrices::Matrix;
use safetensors::{Dtype, SafeTensors};

const VECTOR: usize = 32;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut budget, mut files, mut groups) = (None, Vec::new(), "");
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // Passed by cargo itself.
            "--bench" => {}
            "--budget" => {
                let seconds = arguments.next().ok_or("--budget lacks its seconds")?;
                budget = Some(Duration::from_secs_f64(seconds.parse()?));
            }
            "--global" => groups = ",equal_groups=false",
            _ => files.push(argument),
        }
    }
    println!(
        "kept share of sum |w|, V = {VECTOR}; gain: ours over vector-wise, by the published's"
    );
    let matrices = if files.is_empty() { synthetic() } else { read(&files)? };
    heading(budget.is_some());
    for (name, matrix) in &matrices {
        for sparsity in [0.75, 0.9] {
            row(name, &Bench::new(matrix, groups), sparsity, budget);
        }
    }
    if files.is_empty() {
        others();
    }
    Ok(())
}

fn synthetic() -> Vec<(String, Matrix)> {
    let mut all = Vec::new();
    for (rows, cols) in [(512, 784), (1024, 1024), (4096, 4096)] {
        for matrix in Matrix::kinds(rows, cols, VECTOR, 1) {
            if matrix.kind != "ties" {
                all.push((matrix.kind.to_string(), matrix));
            }
        }
    }
    all.push(("normal".into(), Matrix::normal(16384, 4096, 1)));
    all
}

fn read(files: &[String]) -> Result<Vec<(String, Matrix)>, Box<dyn std::error::Error>> {
    let mut all = Vec::new();
    for file in files {
        let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
        for (name, tensor) in SafeTensors::deserialize(&bytes)?.tensors() {
            if let (Dtype::F32, &[rows, cols]) = (tensor.dtype(), tensor.shape())
                && rows >= 2 * VECTOR
            {
                let word = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                let weights = tensor.data().chunks_exact(4).map(word).collect();
                all.push((name, Matrix { kind: "trained", rows, cols, weights }));
            }
        }
    }
    Ok(all)
}

struct Bench<'a> {
    matrix: &'a Matrix,
    scores: Vec<f32>,
    vector_wise: String,
    shfl_bw: String,
}

impl<'a> Bench<'a> {
    fn new(matrix: &'a Matrix, groups: &str) -> Self {
        let [vector_wise, shfl_bw] =
            ["vector-wise", "shfl-bw"].map(|kind| format!("{kind}(vector={VECTOR}{groups})"));
        Self { matrix, scores: matrix.scores(), vector_wise, shfl_bw }
    }

    fn scores(&self) -> Scores<'_> {
        Scores::new(self.matrix.rows, self.matrix.cols, &self.scores).expect("finite scores")
    }

    /// Returns the kept share of a pattern, the median seconds of three runs (one if there is a budget), and the
    /// projection.
    fn run(&self, pattern: &str, sparsity: f64, search: &Search<'_>) -> (f64, f64, Projection) {
        let pattern: Pattern = pattern.parse().expect("a pattern");
        let mut seconds = Vec::new();
        let mut last = None;
        for _ in 0..if search.budget.is_some() { 1 } else { 3 } {
            let begin = Instant::now();
            last = Some(pattern.project(&self.scores(), sparsity, search).expect("a mask"));
            seconds.push(begin.elapsed().as_secs_f64());
        }
        seconds.sort_by(f64::total_cmp);
        let found = last.expect("at least one run");
        let kept = Retained::measure(&self.matrix.weights, &found.mask).expect("same shape").l1;
        (kept, seconds[seconds.len() / 2], found)
    }
}

fn heading(budget: bool) {
    print!("{:28} {:>11} {:>5} {:>7} {:>7} ", "matrix", "shape", "zeros", "unstr.", "vector");
    print!("{:>7} {:>8} {:>7} {:>7} {:>7}", "publ.", "seconds", "ours", "cold s", "warm s");
    println!("{} {:>6}", if budget { "  budget" } else { "" }, "gain");
}

fn row(name: &str, bench: &Bench<'_>, sparsity: f64, budget: Option<Duration>) {
    let Matrix { rows, cols, .. } = *bench.matrix;
    let plain = Search::default();
    let (unstructured, ..) = bench.run("unstructured", sparsity, &plain);
    let (vector, ..) = bench.run(&bench.vector_wise, sparsity, &plain);
    print!(
        "{name:28} {:>11} {sparsity:>5} {unstructured:>7.4} {vector:>7.4} ",
        format!("{rows}x{cols}")
    );
    let published = (rows <= 1024).then(|| {
        let begin = Instant::now();
        let order = published::search(&bench.scores(), VECTOR, sparsity);
        let seconds = begin.elapsed().as_secs_f64();
        let search = Search { start: Start::Fixed(&order), ..plain };
        (bench.run(&bench.shfl_bw, sparsity, &search).0, seconds)
    });
    match published {
        Some((kept, seconds)) => print!("{kept:>7.4} {seconds:>8.2} "),
        None => print!("{:>7} {:>8} ", "-", "-"),
    }
    let (mut kept, cold, found) = bench.run(&bench.shfl_bw, sparsity, &plain);
    let order = found.row_order.expect("shfl-bw has one");
    let warm = Search { start: Start::Warm(&order), ..plain };
    let (_, warm, _) = bench.run(&bench.shfl_bw, sparsity, &warm);
    print!("{kept:>7.4} {cold:>7.3} {warm:>7.3}");
    if budget.is_some() {
        kept = bench.run(&bench.shfl_bw, sparsity, &Search { budget, ..plain }).0;
        print!(" {kept:>7.4}");
    }
    match published {
        Some((published, _)) => println!(" {:>5.2}x", (kept - vector) / (published - vector)),
        None => println!(" {:>6}", "-"),
    }
}

/// Prints the times of all patterns with their default parameters.
fn others() {
    println!("\nmedian seconds of one projection, 4096x4096 at 75 %");
    let matrix = Matrix::normal(4096, 4096, 1);
    for pattern in Pattern::defaults() {
        let text = pattern.to_string();
        let (kept, seconds, _) = Bench::new(&matrix, "").run(
            &text,
            pattern.fixed_sparsity().unwrap_or(0.75),
            &Search::default(),
        );
        println!("{text:28} {seconds:>7.3}  keeps {kept:.4}");
    }
}
