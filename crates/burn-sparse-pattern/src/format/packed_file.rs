use std::collections::BTreeMap;

use super::Entry;

/// Contents of a file: packed or dense parameters, and metadata strings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PackedFile {
    /// Parameters by path.
    pub entries: BTreeMap<String, Entry>,
    /// Metadata strings of the header, except those that describe the parameters.
    pub metadata: BTreeMap<String, String>,
}
