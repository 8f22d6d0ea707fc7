use std::collections::BTreeMap;
use std::path::Path;

use burn_sparse::checkpoint::{Checkpoint, Format, write_atomically};
use serde_json::json;

use super::names::huggingface;
use super::shards::{INDEX, SINGLE, shard_names};
use super::{Folder, PretrainedError};

impl Folder {
    /// Writes a checkpoint of this folder's model to another folder as dense weights, zeros included, with Hugging Face's names
    /// and the shards of the original.
    ///
    /// Tensors that the model does not use, such as BERT's pooler, are not written.
    ///
    /// # Errors
    /// Returns an error when `out` is this folder or holds a model, or a file cannot be read or written.
    pub fn export(&self, checkpoint: &Checkpoint, out: &Path) -> Result<(), PretrainedError> {
        self.create_copy(out, |_| self.export_weights(checkpoint, out)).map(drop)
    }

    fn export_weights(&self, checkpoint: &Checkpoint, out: &Path) -> Result<(), PretrainedError> {
        let shards = shard_names(self.files())?;
        let mut files = BTreeMap::<String, BTreeMap<_, _>>::new();
        let (mut weight_map, mut bytes) = (BTreeMap::new(), 0);
        for (name, entry) in checkpoint.entries() {
            let name = huggingface(self.config().architecture(), name);
            let file = match &shards {
                None => SINGLE.into(),
                // A tensor that the original lacks goes into the first tensor's shard.
                Some(shards) => {
                    let file = shards.get(&name).or(shards.values().next());
                    file.cloned().unwrap_or_else(|| SINGLE.into())
                }
            };
            bytes += entry.shape().iter().product::<usize>() * entry.float().width();
            weight_map.insert(name.clone(), file.clone());
            files.entry(file).or_default().insert(name, entry.clone());
        }
        for (file, entries) in files {
            let shard = Checkpoint::from_entries(entries);
            shard.write(out.join(file), Format::DensePyTorch)?;
        }
        if shards.is_some() {
            let index = json!({"metadata": {"total_size": bytes}, "weight_map": weight_map});
            let path = out.join(INDEX);
            write_atomically(&path, index.to_string().as_bytes())
                .map_err(|source| PretrainedError::Write { path, source })?;
        }
        Ok(())
    }
}
