//! The costs by which layers choose their kernels.

use burn_sparse::Costs;

use crate::output;

/// Installs the costs of this machine, which are measured the first time. `BURN_SPARSE_COSTS=built-in` keeps the costs
/// that are built in, by which the same kernels are chosen on every machine.
pub(crate) fn install() -> Result<(), String> {
    match std::env::var("BURN_SPARSE_COSTS").as_deref() {
        Err(_) | Ok("") => {}
        Ok("built-in") => return Ok(()),
        Ok(other) => {
            return Err(format!("BURN_SPARSE_COSTS={other}: expected built-in, or nothing"));
        }
    }
    let costs = Costs::read_cache().unwrap_or_else(|| {
        output::note("measuring the CPU kernels of this machine, once");
        Costs::cached()
    });
    costs.install();
    Ok(())
}
