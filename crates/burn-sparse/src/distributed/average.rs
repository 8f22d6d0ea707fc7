//! Averages gradients over ranks, as one flat array that is summed piece by piece.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};

use super::ranks::word;
use super::{Ranks, UnlikeModels};

/// Number of values summed in one call: 32 MB. With many ranks, the latency of messages would dominate smaller pieces
/// (`recipes/ranks/simulate.py`), and larger ones need more memory for their sums.
const PIECE: usize = 8 << 20;

impl Ranks {
    /// Returns the gradients of the whole batch: the mean over all ranks, weighted by samples. A rank without samples
    /// contributes no gradients.
    ///
    /// Packed weights have gradients only for kept values, so only those are sent.
    ///
    /// # Errors
    /// Returns an error when the ranks have different parameters; all ranks return it.
    pub fn average<M: Module>(
        &self,
        model: &M,
        grads: GradientsParams,
        samples: usize,
    ) -> Result<GradientsParams, UnlikeModels> {
        if self.size() == 1 {
            return Ok(grads);
        }
        // A parameter on which no rank's loss depends has no gradient: given zeros, the optimizer would decay it.
        let mut present = Present::new(&grads);
        model.visit(&mut present);
        let shapes = present.shapes.finish();
        let numbers = [samples as u64, present.elements as u64, shapes].map(u64::to_le_bytes);
        let numbers = numbers.concat();
        let all = self.gather(&[numbers, present.found].concat());
        let differs = |there: &Vec<u8>| (1..3).any(|at| word(there, at) != word(&all[0], at));
        if let Some(rank) = all.iter().position(differs) {
            let (there, first) = (word(&all[rank], 1), word(&all[0], 1));
            return Err(UnlikeModels { rank, there, first });
        }
        let whole: u64 = all.iter().map(|there| word(there, 0)).sum();
        let anywhere = |at| all.iter().any(|there| there.get(at) == Some(&1));
        let present: Vec<bool> = (24..all[0].len()).map(anywhere).collect();

        let share = samples as f32 / whole as f32;
        let mut flat = Flat { share, grads, present: present.iter(), values: Vec::new() };
        model.visit(&mut flat);
        let mut values = flat.values;
        self.sum_in_pieces(&mut values);
        let grads = GradientsParams::new();
        let mut apart = Apart { present: present.iter(), values: &values, grads };
        model.visit(&mut apart);
        Ok(apart.grads)
    }

    /// Replaces values by their sums over all ranks.
    pub(super) fn sum_in_pieces(&self, values: &mut [f32]) {
        values.chunks_mut(PIECE).for_each(|piece| self.sum(piece));
    }
}

/// Finds the parameters that have a gradient, one byte each.
struct Present<'a> {
    grads: &'a GradientsParams,
    /// Number of elements of all parameters.
    elements: usize,
    /// Hash of their shapes.
    shapes: DefaultHasher,
    found: Vec<u8>,
    /// Parameters that were visited, which may be under several paths.
    seen: BTreeSet<ParamId>,
}

impl<'a> Present<'a> {
    fn new(grads: &'a GradientsParams) -> Self {
        let (shapes, seen) = (DefaultHasher::new(), BTreeSet::new());
        Self { grads, elements: 0, shapes, found: Vec::new(), seen }
    }
}

impl ModuleVisitor for Present<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let shape = param.base().shape();
        self.elements += shape.num_elements();
        shape.as_slice().hash(&mut self.shapes);
        let is_new = self.seen.insert(param.id);
        self.found.push(u8::from(is_new && self.grads.get::<D>(param.id).is_some()));
    }
}

/// Collects the gradients, times this rank's share of the samples.
struct Flat<'a> {
    share: f32,
    grads: GradientsParams,
    present: std::slice::Iter<'a, bool>,
    values: Vec<f32>,
}

impl ModuleVisitor for Flat<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.present.next() != Some(&true) {
            return;
        }
        // A rank without samples has no gradient of the batch; its values may be NaN.
        match self.grads.remove::<D>(param.id).filter(|_| self.share > 0.0) {
            Some(grad) => {
                let data = grad.into_data().convert::<f32>();
                let found: Vec<f32> = data.try_into_vec().unwrap_or_default();
                self.values.extend(found.iter().map(|value| value * self.share));
            }
            None => {
                let count = param.base().shape().num_elements();
                self.values.resize(self.values.len() + count, 0.0);
            }
        }
    }
}

/// Splits the flat array into gradients again.
struct Apart<'a> {
    present: std::slice::Iter<'a, bool>,
    values: &'a [f32],
    grads: GradientsParams,
}

impl ModuleVisitor for Apart<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.present.next() != Some(&true) {
            return;
        }
        let shape = param.base().shape();
        let (mine, rest) = self.values.split_at(shape.num_elements());
        self.values = rest;
        let data = TensorData::new(mine.to_vec(), shape);
        let device = param.lazy_device().inner();
        let grad = Tensor::<D>::from_data(data, (&device, param.base().dtype()));
        self.grads.register(param.id, grad);
    }
}
