//! One threshold for the scores of all weights of a rule.

use std::collections::BTreeMap;

use burn::module::Module;
use burn_sparse_pattern::{Distribution, Histogram, Pattern};
use faer::Mat;

use super::sites::Site;
use super::walk::Walk;
use super::{Blocks, CalibrateConfig, CalibrateError, Saliency};
use crate::prune::{Plan, PlannedWeight};

impl Plan {
    /// Returns the plan with the sparsities that one threshold gives the weights of a rule with a global distribution.
    ///
    /// The threshold is on the scores in the dense model, which runs once more for it. Scores of inputs are relative to the energy
    /// of their layer's outputs, so that layers of different scales compare; magnitudes are compared as they are.
    pub(super) fn with_thresholds<M: Module, B: Blocks<M>>(
        &self,
        model: &M,
        blocks: &B,
        batches: &[B::State],
        sites: &[Vec<Site>],
        config: &CalibrateConfig,
    ) -> Result<Self, CalibrateError> {
        let mut plan = self.clone();
        let is_global = |weight: &PlannedWeight| weight.distribution == Distribution::Global;
        if !self.weights.iter().any(is_global) {
            return Ok(plan);
        }
        let (states, pruned) = (batches.to_vec(), model.clone());
        let mut walk = Walk { blocks, config, dense: model, pruned, beside: None, states };
        let mut tables: BTreeMap<usize, Vec<(usize, Histogram)>> = BTreeMap::new();
        for (block, sites) in sites.iter().enumerate() {
            for (at, site) in sites.iter().enumerate() {
                let gram = walk.record(block, &sites[at..]);
                let moments = gram.moments(site.bias && config.repair());
                let damped = self.factor(site, &moments, config)?;
                for &index in site.weights.iter().filter(|&&index| is_global(&self.weights[index]))
                {
                    let weights = self.task(&self.weights[index], &walk).weights;
                    let mut scores = config.score().scores(&weights, &damped, &moments.second);
                    let unit = unit(config.score(), &weights, &moments.second);
                    scores.iter_mut().for_each(|score| *score *= unit);
                    let found = tables.entry(self.weights[index].table).or_default();
                    found.push((index, Histogram::of(&scores)));
                }
            }
            walk.advance(block);
        }
        for found in tables.into_values() {
            let (indices, histograms): (Vec<usize>, Vec<Histogram>) = found.into_iter().unzip();
            let first = &self.weights[indices[0]];
            let shares = Distribution::by_score(&histograms, first.schedule.target, first.cap);
            for (index, share) in indices.into_iter().zip(shares) {
                set_sparsity(&mut plan.weights[index], share)?;
            }
        }
        Ok(plan)
    }
}

/// Sets the sparsity of a weight to the one nearest to `share` that its pattern can reach; 0 if that is to drop nothing.
fn set_sparsity(weight: &mut PlannedWeight, share: f64) -> Result<(), CalibrateError> {
    let (rows, cols, pattern) = (weight.view.rows(), weight.view.cols(), weight.pattern);
    let share = match pattern {
        // A mask that keeps all columns still keeps `keep` of every `of` weights.
        Pattern::Hinm { keep, of, .. } => share.max(1.0 - keep as f64 / of as f64),
        _ => share,
    };
    let name = weight.name.clone();
    let fail = |source| CalibrateError::Pattern { name: name.clone(), source };
    weight.schedule.target = pattern.nearest_sparsity(rows, cols, share).map_err(fail)?;
    Ok(())
}

/// Returns the factor that makes scores relative to the energy `tr(Wᵀ H W)` of the outputs.
fn unit(score: Saliency, weights: &Mat<f64>, second: &Mat<f64>) -> f32 {
    let sums = second * weights;
    let energy = |row: usize| -> f64 {
        weights.col(row).iter().zip(sums.col(row).iter()).map(|(w, sum)| w * sum).sum()
    };
    let energy: f64 = (0..weights.ncols()).map(energy).sum();
    if energy <= 0.0 || !energy.is_finite() {
        return 1.0;
    }
    match score {
        Saliency::Magnitude => 1.0,
        Saliency::Wanda => (1.0 / energy.sqrt()) as f32,
        Saliency::Obs => (1.0 / energy) as f32,
    }
}
