//! Checks if a packed layer is ever slower than the dense one, for random shapes, batches, patterns and
//! sparsities with [`Bench`]: `cargo bench --workspace --bench choice [-- CASES [SEED]]`.
//!
//! Because the machines are noisy, a case counts as slower only if three consecutive measurements agree.

use burn::tensor::Device;
use burn_sparse::Costs;
use burn_sparse::measure::{Bench, BenchRow};
use burn_sparse::pattern::format::FloatType;
use burn_sparse::pattern::{Packed, Pattern, Scores, Search};

const PATTERNS: [&str; 8] = [
    "unstructured",
    "balanced(block=32)",
    "balanced(block=8)",
    "balanced(block=100)",
    "vector-wise(vector=4)",
    "shfl-bw(vector=8)",
    "shfl-bw(vector=32)",
    "block-wise(block=64)",
];

/// Speedup (dense time over sparse time) below which a layer counts as slower, if the difference also exceeds
/// `LOOK_UP`, the time in microseconds that a packed layer takes to look up its choice, which is noticeable for the
/// smallest layers.
const SLOWER: f64 = 0.95;
const LOOK_UP: f64 = 0.5;
const TRIES: usize = 3;

fn main() {
    Costs::cached().install();
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let cases = numbers.first().copied().unwrap_or(200);
    let mut random = Random(numbers.get(1).copied().unwrap_or(0));
    let (mut speedups, mut slower, mut dense) = (Vec::new(), Vec::new(), 0);
    while speedups.len() < cases as usize {
        let (rows, cols) = (random.size(4096), random.size(4096));
        let batch = random.size(1024);
        let pattern = PATTERNS[random.next() as usize % PATTERNS.len()];
        let sparsity = 0.5 + 0.49 * random.share();
        let Some((pattern, packed)) = layer(&mut random, pattern, rows, cols, sparsity) else {
            continue;
        };
        let bench = Bench::new(&packed, pattern, FloatType::F32, &Device::flex());
        let mut tries = (0..TRIES).map(|_| bench.row(batch).expect("answers that agree"));
        let mut best: Option<BenchRow> = None;
        for row in &mut tries {
            let better = best.as_ref().is_none_or(|best| row.speedup > best.speedup);
            best = if better { Some(row) } else { best };
            if best.as_ref().is_some_and(|best| !slower_than_dense(best)) {
                break;
            }
        }
        let best = best.expect("at least one try");
        dense += usize::from(best.kernel.starts_with("dense"));
        if slower_than_dense(&best) {
            slower.push(best.clone());
        }
        println!("{}", line(&best));
        speedups.push(best.speedup);
    }
    speedups.sort_by(f64::total_cmp);
    let at = |share: f64| speedups[((speedups.len() - 1) as f64 * share) as usize];
    println!(
        "\n{cases} cases, {dense} of them dense; dense over sparse: lowest {:.2}x, 5 % {:.2}x, median {:.2}x",
        at(0.0),
        at(0.05),
        at(0.5)
    );
    println!("{} slower than dense by more than 5 % and {LOOK_UP} us:", slower.len());
    for row in &slower {
        println!("{}", line(row));
    }
}

fn slower_than_dense(row: &BenchRow) -> bool {
    row.speedup < SLOWER && row.sparse_us - row.dense_us > LOOK_UP
}

fn line(row: &BenchRow) -> String {
    let expected = row.predicted.map_or(String::new(), |p| {
        format!("expected {:.1} us, dense {:.1} us", p.sparse_us, p.dense_us)
    });
    format!(
        "{:5.2}x  {:>4} x {:<4} batch {:<4} {:<24} {:.2} {:>9.1} us -> {:>9.1} us  {}; {expected}",
        row.speedup,
        row.rows,
        row.cols,
        row.batch,
        row.pattern,
        row.sparsity,
        row.dense_us,
        row.sparse_us,
        row.kernel,
    )
}

/// Returns a random weight pruned to a pattern, or `None` if the pattern does not fit it.
fn layer(
    random: &mut Random,
    text: &str,
    rows: usize,
    cols: usize,
    sparsity: f64,
) -> Option<(Pattern, Packed)> {
    let pattern: Pattern = text.parse().expect("a pattern");
    let weights: Vec<f32> = (0..rows * cols).map(|_| random.share() as f32 - 0.5).collect();
    let scores: Vec<f32> = weights.iter().map(|weight| weight.abs()).collect();
    let scores = Scores::new(rows, cols, &scores).expect("finite scores");
    let found = pattern.project(&scores, sparsity, &Search::default()).ok()?;
    let packed = Packed::pack(&pattern, &weights, &found.mask, found.row_order.as_ref());
    Some((pattern, packed.expect("weights of the mask's shape")))
}

/// SplitMix64 generator, so that cases are reproducible.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number in `[0, 1)`.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a size from 1 to `most`, log-uniformly distributed.
    fn size(&mut self, most: usize) -> usize {
        ((most as f64 + 1.0).powf(self.share()) as usize).clamp(1, most)
    }
}
