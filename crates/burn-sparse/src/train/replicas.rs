use std::collections::BTreeMap;

use super::TrainError;
use super::masks::mask;
use super::state::Change;
use crate::prune::PlannedWeight;

/// Mask hashes of the replica that made an update first. The `ddp` strategy of burn-train steps a copy of the model on
/// every device, and all copies share a journal.
///
/// Remembering the last update suffices: a step waits for the gradients of all replicas, so none makes an update before
/// all have made the previous one.
#[derive(Debug, Clone, Default)]
pub(super) struct Replicas {
    step: usize,
    hashes: BTreeMap<String, String>,
}

impl Replicas {
    /// Compares the new masks of a replica after `step` with those of the first replica that reached it.
    ///
    /// # Errors
    /// Returns an error that names the first parameter whose masks differ.
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
