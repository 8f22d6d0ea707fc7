/// Statistics of mask updates since they were last taken.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct MaskUpdateStats {
    /// Number of updates.
    pub updates: usize,
    /// Number of mask elements that changed, summed over updates.
    pub changed: usize,
    /// Number of mask elements that were searched, summed over updates.
    pub searched: usize,
    /// Seconds spent on updates.
    pub seconds: f64,
}

impl MaskUpdateStats {
    /// Returns the share of the searched masks that changed.
    pub fn changed_share(&self) -> f64 {
        if self.searched == 0 { 0.0 } else { self.changed as f64 / self.searched as f64 }
    }
}
