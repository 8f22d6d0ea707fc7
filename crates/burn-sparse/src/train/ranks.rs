//! A model that several ranks train together: gradients are averaged before a step, masks compared after an update.

use burn::module::Module;
use burn::optim::GradientsParams;

use super::{MaskSummary, Sparse, TrainError};
use crate::distributed::Ranks;

impl<M: Module> Sparse<M> {
    /// Trains together with other ranks from now on. Every optimizer step averages the gradients of all ranks, which should be of
    /// equally many samples, before penalties, scores, and masks see them; then the running statistics of batch normalization;
    /// and every mask update is followed by [`Self::compare_masks`], whose error [`Self::finish`] and [`Self::check_updates`]
    /// return. All ranks must take equally many steps.
    ///
    /// Start from equal parameters: attach the plan to [`Ranks::broadcast`] of a model.
    #[must_use]
    pub fn with_ranks(mut self, ranks: &Ranks) -> Self {
        self.ranks = ranks.clone();
        self
    }

    /// Compares the masks of all ranks, if the last optimizer step has updated them.
    ///
    /// Masks are a function of the weights, so they are equal unless the weights differ.
    ///
    /// # Errors
    /// Names the first parameter whose masks differ, and the ranks; or the error of the update. All ranks return one.
    pub fn compare_masks(&self, ranks: &Ranks) -> Result<(), TrainError> {
        if ranks.size() == 1 {
            return Ok(());
        }
        let step = self.step();
        if step.as_ref().is_ok_and(|&step| self.plan().due(step).next().is_none()) {
            return Ok(());
        }
        let here = self.check_updates().and_then(|()| self.masks());
        // A rank that has failed takes part, too: the others would wait for it.
        let text = here.clone().map_or_else(|error| error.to_string(), hashes);
        let all = ranks.gather(text.as_bytes());
        here?;
        let lines = |text: &Vec<u8>| -> Vec<String> {
            String::from_utf8_lossy(text).lines().map(str::to_string).collect()
        };
        let all: Vec<Vec<String>> = all.iter().map(lines).collect();
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

    /// Returns the mean of all ranks' gradients. After an error, it is the journal's, and there are no gradients.
    pub(super) fn averaged(&self, grads: GradientsParams) -> Option<GradientsParams> {
        let fault = |error| self.journal().fault.get_or_insert(TrainError::Unlike(error)).clone();
        self.ranks.average(self.inner(), grads, 1).map_err(fault).ok()
    }

    /// Returns the model after a step, equal on all ranks.
    pub(super) fn equalized(self) -> Self {
        let ranks = self.ranks.clone();
        let next = self.map_inner(|inner| ranks.average_statistics(inner, 1));
        if let Err(error) = next.compare_masks(&ranks) {
            next.journal().fault.get_or_insert(error);
        }
        next
    }
}

/// One line for every mask.
fn hashes(masks: MaskSummary) -> String {
    masks.hashes.into_iter().map(|(name, hash)| format!("{hash} {name}\n")).collect()
}
