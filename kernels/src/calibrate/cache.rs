use std::path::PathBuf;

use burn_sparse_cpu::Isa;

use super::measure::measure;
use crate::cost::{Costs, Tables};

/// Version of the kernels; tables measured with other versions are not used.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " 16");

impl Costs {
    /// Measures this machine, which takes about three seconds.
    pub fn measure() -> Self {
        Self::of(measure(machine()))
    }

    /// Reads the costs of this machine from the user's cache folder, or measures and saves them. A cache that cannot be
    /// read or written only costs time.
    pub fn cached() -> Self {
        Self::read_cache().unwrap_or_else(|| {
            let started = std::time::Instant::now();
            let costs = Self::measure();
            let seconds = started.elapsed().as_secs_f64();
            let saved = path().is_some_and(|path| write(costs.tables(), &path).is_ok());
            tracing::info!(seconds, saved, "measured the CPU kernels of this machine");
            costs
        })
    }

    /// Reads the costs of this machine from the user's cache folder; `None` if they have not been saved by this version.
    pub fn read_cache() -> Option<Self> {
        let text = std::fs::read_to_string(path()?).ok()?;
        let tables: Tables = serde_json::from_str(&text).ok()?;
        (tables.machine == machine()).then(|| Self::of(tables))
    }
}

fn write(tables: &Tables, path: &std::path::Path) -> std::io::Result<()> {
    std::fs::create_dir_all(path.parent().unwrap_or(path))?;
    // Renames in one step, so that another process never reads half a table.
    let part = path.with_extension(format!("{}.part", std::process::id()));
    std::fs::write(&part, serde_json::to_string_pretty(tables)?)?;
    std::fs::rename(&part, path)
}

/// Returns the cache file of this machine; several machines may share a home folder.
fn path() -> Option<PathBuf> {
    // FNV-1a gives a name that stays the same from one compiler to the next.
    let hash = machine().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Some(dirs::cache_dir()?.join("burn-sparse").join(format!("cpu-costs-{hash:016x}.json")))
}

/// Describes everything that the costs depend on: the CPU, the instruction set in use, the threads, and the kernels.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_string())
    };
    // Virtual machines often hide the name of the model, but never its numbers.
    let cpu: Vec<String> = ["model name", "cpu family", "model\t", "CPU implementer", "CPU part"]
        .into_iter()
        .filter_map(field)
        .collect();
    let threads = rayon::current_num_threads();
    let isa = Isa::detect().name();
    format!("{} / {isa} / {threads} threads / kernels {VERSION}", cpu.join(" "))
}
