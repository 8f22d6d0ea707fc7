use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::FormatError;

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Parses the index of a sharded safetensors file, `model.safetensors.index.json`: returns the file name of every tensor's shard.
///
/// # Errors
/// Returns an error when the JSON has no `weight_map` of strings, or names a shard by a path, which could be outside the folder.
pub fn weight_map(json: &[u8]) -> Result<BTreeMap<String, String>, FormatError> {
    let index: Index = serde_json::from_slice(json)
        .map_err(|error| FormatError::Index { reason: error.to_string() })?;
    match index.weight_map.values().find(|file| Path::new(file).file_name() != Some(file.as_ref()))
    {
        Some(file) => Err(FormatError::Index {
            reason: format!("names the shard {file}, expected a file name"),
        }),
        None => Ok(index.weight_map),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_names_the_shard_of_every_tensor() {
        let map = weight_map(br#"{"metadata": {}, "weight_map": {"a": "1.st", "b": "2.st"}}"#);
        let expected = [("a", "1.st"), ("b", "2.st")].map(|(k, v)| (k.into(), v.into()));
        assert_eq!(map.unwrap(), BTreeMap::from(expected));
    }

    #[test]
    fn an_index_without_a_map_or_with_a_path_is_refused() {
        for json in
            [r#"{}"#, r#"{"weight_map": {"a": 1}}"#, r#"{"weight_map": {"a": "../b"}}"#, "{"]
        {
            let refused = weight_map(json.as_bytes());
            assert!(matches!(refused, Err(FormatError::Index { .. })), "{json}");
        }
    }
}
