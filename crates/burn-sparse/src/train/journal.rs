use super::TrainError;
use super::replicas::Replicas;

/// What mask updates have done since the journal was last read.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    /// Updates made.
    pub updates: usize,
    /// Weights whose mask changed, summed over updates.
    pub changed: usize,
    /// Weights whose mask was searched, summed over updates.
    pub searched: usize,
    /// Seconds spent on updates.
    pub seconds: f64,
    /// The first error; masks stay as they were from then on.
    pub fault: Option<TrainError>,
    pub(super) replicas: Replicas,
}

impl Journal {
    /// What has happened since the last call. What replicas are compared by stays.
    pub(super) fn take(&mut self) -> Self {
        let replicas = self.replicas.clone();
        std::mem::replace(self, Self { replicas, ..Self::default() })
    }

    /// The share of the searched masks that changed.
    pub fn changed_share(&self) -> f64 {
        if self.searched == 0 { 0.0 } else { self.changed as f64 / self.searched as f64 }
    }
}
