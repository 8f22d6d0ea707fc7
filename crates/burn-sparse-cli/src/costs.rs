//! The costs by which layers choose their kernels.

use burn_sparse::Costs;
use burn_sparse::distributed::{RankFailed, Ranks};
use thiserror::Error;

use crate::output;

/// Installs the costs of this machine, which are measured the first time. `BURN_SPARSE_COSTS=built-in` keeps the
/// built-in costs, which choose the same kernels on every machine.
pub(crate) fn install() -> Result<(), CostsError> {
    if let Some(costs) = chosen()? {
        costs.install();
    }
    Ok(())
}

/// Installs the costs of rank 0's machine on all ranks, so that they run the same kernels and do not measure at the same time.
pub(crate) fn install_on(ranks: &Ranks) -> Result<(), CostsError> {
    if ranks.size() == 1 {
        return install();
    }
    let costs = ranks.lead(|| Ok::<_, CostsError>(serde_json::to_vec(&chosen()?)?))?;
    if let Some(costs) = serde_json::from_slice::<Option<Costs>>(&costs)? {
        costs.install();
    }
    Ok(())
}

/// Returns the costs to install; `None` for the built-in ones.
fn chosen() -> Result<Option<Costs>, CostsError> {
    match std::env::var("BURN_SPARSE_COSTS").as_deref() {
        Err(_) | Ok("") => Ok(Some(of_this_machine())),
        Ok("built-in") => Ok(None),
        Ok(other) => Err(CostsError::Variable(other.into())),
    }
}

fn of_this_machine() -> Costs {
    Costs::read_cache().unwrap_or_else(|| {
        output::note("measuring the CPU kernels of this machine, once");
        Costs::cached()
    })
}

/// The costs cannot be installed.
#[derive(Debug, Error)]
pub(crate) enum CostsError {
    #[error("BURN_SPARSE_COSTS={0}: expected built-in, or nothing")]
    Variable(String),
    #[error(transparent)]
    Rank(#[from] RankFailed),
    #[error("the costs of rank 0: {0}")]
    Json(#[from] serde_json::Error),
}
