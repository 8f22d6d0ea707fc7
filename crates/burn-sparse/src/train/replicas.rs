use std::collections::BTreeMap;

use super::TrainError;
use super::gather::Change;
use super::pruned::mask;
use crate::plan::PlannedWeight;

/// What the replica that was first made of an update: burn-train's `ddp` steps a copy of the model on every
/// device, and all copies share a journal.
///
/// The last update is enough: a step waits for the gradients of all replicas, so that none makes an update
/// before all have made the one before.
#[derive(Debug, Clone, Default)]
pub(super) struct Replicas {
    step: usize,
    hashes: BTreeMap<String, String>,
}

impl Replicas {
    /// Compares the masks that a replica comes to after `step` with those of the first that came there.
    ///
    /// # Errors
    /// Names the first parameter whose masks differ.
    pub(super) fn agree(
        &mut self,
        step: usize,
        due: &[&PlannedWeight],
        changes: &BTreeMap<String, Change>,
    ) -> Result<(), TrainError> {
        let mut hashes = BTreeMap::new();
        for weight in due {
            let Some(change) = changes.get(&weight.name) else { continue };
            hashes.insert(weight.name.clone(), mask(weight, &change.keep, step)?.hash());
        }
        if self.step != step || self.hashes.is_empty() {
            *self = Self { step, hashes };
            return Ok(());
        }
        for (name, expected) in hashes {
            match self.hashes.get(&name) {
                Some(found) if *found != expected => {
                    return Err(TrainError::Replicas { name, expected, found: found.clone() });
                }
                _ => {}
            }
        }
        Ok(())
    }
}
