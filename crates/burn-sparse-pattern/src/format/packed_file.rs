use std::collections::BTreeMap;

use super::Entry;

/// What a file holds: parameters, packed or dense, and strings about them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PackedFile {
    /// Every parameter by its path.
    pub entries: BTreeMap<String, Entry>,
    /// The header's strings but those that describe the parameters.
    pub metadata: BTreeMap<String, String>,
}
