/// Number of vectors to keep.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keep {
    /// The same number of columns in every group.
    PerGroup(usize),
    /// A total for the whole matrix, selected by one threshold.
    Total(usize),
}

impl Keep {
    pub(crate) fn new(equal_groups: bool, kept: usize) -> Self {
        if equal_groups { Self::PerGroup(kept) } else { Self::Total(kept) }
    }
}
