//! Environment variables set by the launcher of this process. Open MPI sets `OMPI_…`, MPICH and Intel MPI `PMI_…`; SLURM
//! gives the rank through PMIx, and the number of tasks in its own variable.

/// Returns the number of ranks that a launcher has started; 1 without a launcher.
pub(crate) fn count() -> usize {
    let through_pmix = std::env::var_os("PMIX_RANK").and_then(|_| set("SLURM_NTASKS"));
    set("OMPI_COMM_WORLD_SIZE").or(set("PMI_SIZE")).or(through_pmix).unwrap_or(1)
}

/// Returns the rank of this process; 0 without a launcher.
pub(crate) fn rank() -> usize {
    let names = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];
    names.into_iter().find_map(set).unwrap_or(0)
}

fn set(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}
