use super::replicas::Replicas;
use super::{MaskUpdateStats, TrainError};

/// Shared record of mask updates: statistics, the first error, and the data for comparing replicas.
#[derive(Debug, Clone, Default)]
pub(super) struct Journal {
    pub(super) stats: MaskUpdateStats,
    /// First error; masks have not changed since.
    pub(super) fault: Option<TrainError>,
    pub(super) replicas: Replicas,
}

impl Journal {
    /// Returns and resets the statistics.
    ///
    /// # Errors
    /// Returns the first error of an update.
    pub(super) fn take_stats(&mut self) -> Result<MaskUpdateStats, TrainError> {
        match &self.fault {
            Some(fault) => Err(fault.clone()),
            None => Ok(std::mem::take(&mut self.stats)),
        }
    }
}
