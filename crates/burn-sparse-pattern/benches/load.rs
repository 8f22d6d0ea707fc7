//! Benchmarks the cost of validation: loading a packed file of one gigabyte against only reading its bytes.
//!
//! ```text
//! cargo bench -p burn-sparse-pattern --bench load -- [FOLDER]
//! ```
//!
//! Both alternate in one run; "cold" first asks the system to drop the file from its cache (`dd iflag=nocache`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use burn_sparse_pattern::format::{Entry, FloatType, PackedEntry, PackedFile, View};
use burn_sparse_pattern::{
    BalancedPacked, GroupedPacked, Packed, Pattern, RowOrder, UnstructuredPacked,
};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

type Error = Box<dyn std::error::Error>;

const BYTES: usize = 1_000_000_000;
const ROWS: usize = 4096;
const COLS: usize = 8192;
const RUNS: usize = 7;

fn main() -> Result<(), Error> {
    let folder = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let folder = folder.map_or(std::env::temp_dir(), PathBuf::from);
    let path = folder.join("burn-sparse-load.safetensors");
    println!(
        "{:24} {:>6} {:>12} {:>8} {:>8} {:>6} {:>14}",
        "pattern", "zeros", "bytes", "read s", "load s", "ratio", "peak/file"
    );
    for (pattern, sparsity) in [
        ("shfl-bw(vector=32)", 0.75),
        ("shfl-bw(vector=32)", 0.9),
        ("balanced(block=32)", 0.75),
        ("balanced(block=32)", 0.90625),
        ("unstructured", 0.75),
    ] {
        write(&path, pattern.parse()?, sparsity)?;
        for cold in [false, true] {
            row(&path, pattern, sparsity, cold)?;
        }
    }
    std::fs::remove_file(&path)?;
    Ok(())
}

fn row(path: &Path, pattern: &str, sparsity: f64, cold: bool) -> Result<(), Error> {
    let (mut read, mut load, mut peak) = (Vec::new(), Vec::new(), 0.0_f64);
    let bytes = std::fs::metadata(path)?.len();
    for run in 0..=RUNS {
        forget(path, cold)?;
        let begin = Instant::now();
        let all = std::fs::read(path)?;
        let seconds = begin.elapsed().as_secs_f64();
        assert_eq!(all.len() as u64, bytes);
        drop(all);
        forget(path, cold)?;
        memory()?;
        let before = memory()?;
        let begin = Instant::now();
        let file = PackedFile::open(path)?;
        let loaded = begin.elapsed().as_secs_f64();
        assert!(!file.entries.is_empty());
        peak = peak.max((memory()? - before) / bytes as f64);
        if run > 0 {
            read.push(seconds);
            load.push(loaded);
        }
    }
    let name = format!("{pattern}{}", if cold { ", cold" } else { "" });
    let (read, load) = (median(read), median(load));
    println!(
        "{name:24} {sparsity:>6} {bytes:>12} {read:>8.3} {load:>8.3} {:>5.2}x {peak:>13.2}x",
        load / read
    );
    Ok(())
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn forget(path: &Path, cold: bool) -> Result<(), Error> {
    if cold {
        File::open(path)?.sync_all()?;
        let file = format!("if={}", path.display());
        let done =
            Command::new("dd").args([&file, "iflag=nocache", "count=0", "status=none"]).status()?;
        assert!(done.success());
    }
    Ok(())
}

/// Returns the peak memory of this process since the last call, in bytes.
fn memory() -> Result<f64, Error> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM")).ok_or("no VmHWM")?;
    let kilobytes: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    std::fs::write("/proc/self/clear_refs", "5")?;
    Ok(1024.0 * kilobytes)
}

/// Writes layers of random kept weights until the file holds at least `BYTES` bytes of values.
fn write(path: &Path, pattern: Pattern, sparsity: f64) -> Result<(), Error> {
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let mut layer = || -> Result<Packed, Error> {
        let kept = ((1.0 - sparsity) * COLS as f64).round() as usize;
        let mut values = |count: usize| -> Vec<f32> {
            (0..count).map(|_| random.random_range(-1.0..1.0_f32)).collect()
        };
        Ok(match pattern {
            Pattern::Balanced { block } => {
                let each = ((1.0 - sparsity) * block as f64).round() as usize;
                let count = ROWS * COLS / block * each;
                let values = values(count);
                // Picks `each` ascending indices per block, evenly spaced; the first one varies from block to block.
                let stride = block / each;
                let index = |at: usize| ((at % each) * stride + at / each % stride) as u8;
                let indices = (0..count).map(index).collect();
                Packed::Balanced(BalancedPacked::new((ROWS, COLS), block, each, values, indices)?)
            }
            Pattern::ShflBw { vector, .. } => {
                let values = values(ROWS * kept);
                let mut order: Vec<u32> = (0..ROWS as u32).collect();
                order.shuffle(&mut random);
                let mut columns = Vec::new();
                for _ in 0..ROWS / vector {
                    let mut all: Vec<u32> = (0..COLS as u32).collect();
                    all.shuffle(&mut random);
                    all.truncate(kept);
                    all.sort_unstable();
                    columns.extend(all);
                }
                let order = Some(RowOrder::new(order)?);
                let shape = (ROWS, COLS);
                Packed::Grouped(GroupedPacked::new(shape, vector, columns, None, order, values)?)
            }
            _ => {
                let bits: Vec<u8> = (0..ROWS * COLS / 8)
                    .map(|_| random.random::<u8>() & random.random::<u8>())
                    .collect();
                let count = bits.iter().map(|byte| byte.count_ones() as usize).sum();
                let values: Vec<f32> =
                    (0..count).map(|_| random.random_range(-1.0..1.0_f32)).collect();
                Packed::Unstructured(UnstructuredPacked::new(ROWS, COLS, bits, values)?)
            }
        })
    };
    let mut entries = BTreeMap::new();
    let mut bytes = 0;
    while bytes < BYTES {
        let packed = layer()?;
        bytes += 4 * packed.kept();
        let (layer, view) = ("Linear".into(), View::Linear { rows: ROWS, cols: COLS });
        let entry =
            PackedEntry { layer, view, pattern, packed, float: FloatType::F32, scales: None };
        entries.insert(format!("layers.{:02}.weight", entries.len()), Entry::Packed(entry));
    }
    let mut out = BufWriter::new(File::create(path)?);
    PackedFile { entries, metadata: BTreeMap::new() }.write(&mut out)?;
    out.flush()?;
    out.get_ref().sync_all()?;
    Ok(())
}
