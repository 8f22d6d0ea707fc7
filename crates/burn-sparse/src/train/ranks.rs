//! A model that several ranks train together: gradients are averaged before a step, masks compared after an update.

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use super::state::is_replicated;
use super::{Sparse, TrainError};
use crate::distributed::Ranks;
use crate::params::{Path, VisitParams, visit_params};

impl<M: Module> Sparse<M> {
    /// Trains together with other ranks from now on. Every optimizer step averages the gradients of all ranks, which should
    /// cover the same number of samples, before penalties, scores, and masks use them, and then the running statistics of batch
    /// normalization. Every mask update is followed by [`Self::compare_masks`], whose error [`Self::finish`] and
    /// [`Self::check_updates`] return. All ranks must take the same number of steps.
    ///
    /// Start from equal parameters: attach the plan to a model that [`Ranks::broadcast`] returned.
    #[must_use]
    pub fn with_ranks(mut self, ranks: &Ranks) -> Self {
        self.ranks = ranks.clone();
        self
    }

    /// Compares the masks of all ranks.
    ///
    /// Masks are a function of the weights, so they are equal unless the weights differ.
    ///
    /// # Errors
    /// Returns an error that names the first parameter whose masks differ, and the ranks; or the
    /// error of an update. All ranks return one.
    pub fn compare_masks(&self, ranks: &Ranks) -> Result<(), TrainError> {
        if ranks.size() == 1 {
            return self.check_updates();
        }
        let here = self.check_updates().and_then(|()| Ok((self.step()?, self.masks()?)));
        let (step, masks) = ranks.agree(here)?;
        let line = |(name, hash): (&String, &String)| format!("{hash} {name}\n");
        let text: String = masks.hashes.iter().map(line).collect();
        let all = ranks.gather(text.as_bytes());
        let line = |rank: usize, at| all[rank].split(|&byte| byte == b'\n').nth(at);
        for (at, name) in masks.hashes.into_keys().enumerate() {
            let differs = |&rank: &usize| line(rank, at) != line(0, at);
            let ranks: Vec<usize> = (1..all.len()).filter(differs).collect();
            if !ranks.is_empty() {
                return Err(TrainError::Ranks { name, step, ranks });
            }
        }
        Ok(())
    }

    /// Returns `true` if the last optimizer step updated masks.
    pub fn is_updated(&self) -> bool {
        self.step().is_ok_and(|step| self.plan().due(step).next().is_some())
    }

    /// Averages gradients over all ranks. On failure, records the error in the journal and returns `None`.
    pub(super) fn averaged(&self, grads: GradientsParams) -> Option<GradientsParams> {
        if self.ranks.size() == 1 {
            return Some(grads);
        }
        let mut replicated = Replicated(false);
        visit_params(self.inner(), &mut replicated);
        let averaged = match self.ranks.any(replicated.0) {
            true => Err(TrainError::RankDevices),
            false => self.ranks.average(self.inner(), grads, 1).map_err(TrainError::Unlike),
        };
        let fault = |error| self.journal().fault.get_or_insert(error).clone();
        averaged.map_err(fault).ok()
    }

    /// Returns the model after a step, equal on all ranks.
    pub(super) fn equalized(self) -> Self {
        let ranks = self.ranks.clone();
        let next = self.map_inner(|inner| ranks.average_statistics(inner, 1));
        if next.is_updated()
            && let Err(error) = next.compare_masks(&ranks)
        {
            next.journal().fault.get_or_insert(error);
        }
        next
    }
}

/// `true` if burn-train's `ddp` keeps replicas on several devices.
struct Replicated(bool);

impl VisitParams for Replicated {
    fn float<const D: usize>(&mut self, _path: &Path, param: &Param<Tensor<D>>) {
        self.0 |= is_replicated(&param.base());
    }
}
