use super::TrainError;

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
}

impl Journal {
    /// The share of the searched masks that changed.
    pub fn changed_share(&self) -> f64 {
        if self.searched == 0 { 0.0 } else { self.changed as f64 / self.searched as f64 }
    }
}
