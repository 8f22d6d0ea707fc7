use std::path::PathBuf;

use super::{Costs, Isa};

/// Tables measured by other versions of the kernels are no good.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " 9");

/// The costs of this machine: from the cache, else from `measure`, kept for the next process. A cache
/// that cannot be read or written only costs time.
pub(super) fn read_or(measure: impl FnOnce() -> Costs) -> Costs {
    let (machine, path) = (machine(), path());
    let read = || {
        let text = std::fs::read_to_string(path.as_ref()?).ok()?;
        serde_json::from_str::<Costs>(&text).ok().filter(|costs| costs.machine == machine)
    };
    if let Some(costs) = read() {
        return costs;
    }
    let started = std::time::Instant::now();
    let costs = Costs { machine, ..measure() };
    let seconds = started.elapsed().as_secs_f64();
    let kept = path.is_some_and(|path| write(&costs, &path).is_ok());
    tracing::info!(seconds, kept, "measured the CPU kernels of this machine");
    costs
}

fn write(costs: &Costs, path: &std::path::Path) -> std::io::Result<()> {
    std::fs::create_dir_all(path.parent().unwrap_or(path))?;
    // Renamed in one step: another process never reads half a table.
    let part = path.with_extension(format!("{}.part", std::process::id()));
    std::fs::write(&part, serde_json::to_string_pretty(costs)?)?;
    std::fs::rename(&part, path)
}

/// One file per machine: several may share a home folder.
fn path() -> Option<PathBuf> {
    // FNV-1a: a name that stays the same from one compiler to the next.
    let hash = machine().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Some(dirs::cache_dir()?.join("burn-sparse").join(format!("cpu-costs-{hash:016x}.json")))
}

/// What the costs depend on: the CPU, the instruction set in use, the threads, the kernels.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_string())
    };
    // Virtual machines often hide the model's name, never its numbers.
    let cpu: Vec<String> =
        ["model name", "cpu family", "model\t"].into_iter().filter_map(field).collect();
    let threads = rayon::current_num_threads();
    let isa = Isa::detect().name();
    format!("{} / {isa} / {threads} threads / kernels {VERSION}", cpu.join(" "))
}
