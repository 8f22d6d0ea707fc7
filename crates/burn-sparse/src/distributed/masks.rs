use burn::module::Module;

use super::Ranks;
use crate::train::{Sparse, TrainError};

impl Ranks {
    /// Compares the masks of all ranks, if the last optimizer step has updated them.
    ///
    /// Masks are a function of the weights, so they are equal unless the weights differ.
    ///
    /// # Errors
    /// Names the first parameter whose masks differ, and the ranks; or the error of the update.
    pub fn compare_masks<M: Module>(&self, model: &Sparse<M>) -> Result<(), TrainError> {
        if self.size() == 1 {
            return Ok(());
        }
        let step = model.step();
        if step.as_ref().is_ok_and(|&step| model.plan().due(step).next().is_none()) {
            return Ok(());
        }
        let here = model.check_updates().and_then(|()| model.masks());
        let hashes = |masks: crate::train::MaskSummary| {
            let lines = masks.hashes.into_iter().map(|(name, hash)| format!("{hash} {name}\n"));
            lines.collect::<String>()
        };
        // Ranks that fail take part, too: the others have something to compare with.
        let text = here.clone().map_or_else(|error| format!("{error}\n"), hashes);
        let all = self.gather(text.as_bytes());
        here?;
        let lines = |text: &[u8]| -> Vec<String> {
            String::from_utf8_lossy(text).lines().map(str::to_string).collect()
        };
        let all: Vec<Vec<String>> = all.iter().map(|text| lines(text)).collect();
        for (at, expected) in all[0].iter().enumerate() {
            let differs = |&rank: &usize| all[rank].get(at) != Some(expected);
            let ranks: Vec<usize> = (1..all.len()).filter(differs).collect();
            if !ranks.is_empty() {
                let name = expected.split_once(' ').map_or(expected.as_str(), |(_, name)| name);
                return Err(TrainError::Ranks { name: name.into(), step: step?, ranks });
            }
        }
        Ok(())
    }
}
