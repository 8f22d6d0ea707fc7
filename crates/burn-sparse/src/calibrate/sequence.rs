//! Calibration of a whole model, from its first layer to its last.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use burn::module::Module;
use burn_sparse_pattern::format::View;
use burn_sparse_pattern::{Distribution, RowOrder};
use faer::Mat;

use super::calibrated::set_values;
use super::dense_model::DenseModel;
use super::factor::{Damped, threads};
use super::gram::{Gram, Moments};
use super::prune_weight::{Solution, Task};
use super::reconstruct::reconstruct;
use super::sites::{Site, bias_of, read, sites};
use super::walk::Walk;
use super::{
    Blocks, CalibrateConfig, CalibrateError, Calibrated, CalibratedWeight, CalibrationStep,
};
use crate::prune::{Plan, PlannedWeight};
use crate::train::refuse_other_shapes;

impl Plan {
    /// Prunes a model in one shot by the inputs that its layers get from `batches`, and repairs the kept weights.
    ///
    /// Layers are pruned in the order of the forward pass, each using the outputs of the pruned layers before it. `H`, the mean
    /// of `x xᵀ` over the inputs `x` of a layer, is summed in `f64`; weights are ranked, the scores are projected onto the
    /// pattern, and kept weights take the values of least squares, `H[K, K]⁻¹ H[K, :] w` (see [`CalibrateConfig`]). Layers with
    /// a bias that are repaired use the covariance instead of `H`, and their bias compensates for the means.
    ///
    /// Runs every block once for each distinct input of its layers, up to that input, and once more for the input of the next
    /// block. If the repair aims at the dense outputs, runs the dense block once, or more often if its inputs exceed 1 GiB.
    /// Memory: the states of all batches between two blocks, `H` of one input, those inputs of the dense block, and two copies
    /// of the model.
    ///
    /// With a global distribution, one threshold on the scores in the dense model, relative to the energy of each layer's outputs
    /// unless they are magnitudes, gives every weight of a rule its sparsity; all blocks run once more for it.
    ///
    /// The plan must prune before the first step, without a ramp. `model` must not be under autodiff: use `model.valid()`.
    /// `on_step` is called after each weight, and after each block that is reconstructed.
    ///
    /// # Errors
    /// Returns an error before anything is pruned when the configuration is out of range, a weight has a ramp, there are no batches, or a planned weight is in two blocks, in a layer whose inputs cannot be recorded, or
    /// in a convolution that would be rounded to integers; later when inputs or weights are not finite, or a block to be
    /// reconstructed has no features.
    pub fn calibrate<M: Module, B: Blocks<M>>(
        &self,
        model: &M,
        blocks: &B,
        batches: Vec<B::State>,
        config: &CalibrateConfig,
        mut on_step: impl FnMut(CalibrationStep<'_>),
    ) -> Result<Calibrated, CalibrateError> {
        self.check_calibration(config)?;
        refuse_other_shapes(self, model)?;
        let first = batches.first().ok_or(CalibrateError::NoInputs)?;
        let sites = sites(self, model, blocks, first)?;
        let plan = self.with_thresholds(model, blocks, &batches, &sites, config)?;
        let mut walk = Walk {
            blocks,
            config,
            dense: model,
            pruned: model.clone(),
            beside: config.needs_dense().then(|| DenseModel::new(blocks, model, batches.clone())),
            states: batches,
        };
        let mut found = Calibrated {
            plan: self.clone(),
            masks: BTreeMap::new(),
            values: BTreeMap::new(),
            scales: BTreeMap::new(),
            weights: Vec::new(),
            blocks: Vec::new(),
        };
        let last = sites.len().saturating_sub(1);
        for (block, sites) in sites.iter().enumerate() {
            for (at, site) in sites.iter().enumerate() {
                let gram = walk.record(block, &sites[at..]);
                let values = plan.prune_site(site, &gram, &walk, &mut found, &mut on_step)?;
                walk.pruned = set_values(walk.pruned, &values);
                found.values.extend(values);
            }
            let indices: Vec<usize> =
                sites.iter().flat_map(|site| site.weights.iter().copied()).collect();
            if config.reconstruct() > 0 && !indices.is_empty() {
                let steps = config.reconstruct();
                let done = reconstruct(&plan, block, &indices, steps, &mut walk, &mut found)?;
                tracing::debug!(block, error = done.error, "reconstructed");
                on_step(CalibrationStep::Block(&done));
                found.blocks.push(done);
            }
            if block < last {
                walk.advance(block);
            }
        }
        Ok(found)
    }

    /// Checks what [`Self::calibrate`] can refuse without a model.
    ///
    /// # Errors
    /// Returns an error when the configuration is out of range, a weight has a ramp, or a convolution would be rounded to integers.
    pub fn check_calibration(&self, config: &CalibrateConfig) -> Result<(), CalibrateError> {
        config.validate()?;
        self.refuse_ramps()?;
        match config.values() {
            Some(_) => self.refuse_convolutions(),
            None => Ok(()),
        }
    }

    fn refuse_convolutions(&self) -> Result<(), CalibrateError> {
        let convolution = |weight: &&PlannedWeight| matches!(weight.view, View::Conv { .. });
        match self.weights.iter().find(convolution) {
            Some(weight) => Err(CalibrateError::Integers { name: weight.name.clone() }),
            None => Ok(()),
        }
    }

    fn refuse_ramps(&self) -> Result<(), CalibrateError> {
        for weight in &self.weights {
            let (name, end) = (weight.name.clone(), weight.schedule.end);
            if end > 0 {
                return Err(CalibrateError::Ramp { name, end });
            }
        }
        Ok(())
    }

    /// Prunes the weights of a site; returns the new values of weights and biases.
    fn prune_site<M: Module, B: Blocks<M>>(
        &self,
        site: &Site,
        gram: &Gram,
        walk: &Walk<'_, M, B>,
        found: &mut Calibrated,
        on_step: &mut impl FnMut(CalibrationStep<'_>),
    ) -> Result<BTreeMap<String, Vec<f32>>, CalibrateError> {
        let started = Instant::now();
        // Only a repaired bias absorbs the means of the inputs.
        let moments = gram.moments(site.bias && walk.config.repair());
        let damped = self.factor(site, &moments, walk.config)?;
        if damped.damp > walk.config.damp() {
            for &index in &site.weights {
                let name = &self.weights[index].name;
                tracing::warn!(name, damp = damped.damp, "H is singular: more damping");
            }
        }
        let mut shared = started.elapsed().as_secs_f64();
        let mut values = BTreeMap::new();
        for &index in &site.weights {
            let started = Instant::now();
            let planned = &self.weights[index];
            let (name, view) = (&planned.name, &planned.view);
            let fail = |source| CalibrateError::Pattern { name: name.clone(), source };
            let task = self.task(planned, walk);
            let solution = task.solve(&moments, &damped).map_err(fail)?;
            let mask = &solution.projection.mask;
            let identity = RowOrder::identity(view.rows());
            let order = solution.projection.row_order.as_ref().unwrap_or(&identity);
            planned.pattern.check(mask, solution.projection.row_order.as_ref()).map_err(fail)?;
            let keep = view.to_stored(&mask.to_bytes());
            found.masks.insert(name.clone(), (keep, order.as_slice().to_vec()));
            let weight = CalibratedWeight {
                name: name.clone(),
                sparsity: mask.sparsity(),
                tokens: gram.tokens(),
                error_masked: solution.masked,
                error: solution.left,
                damp: damped.damp,
                // The factorization is shared; its time counts for the first weight of the site.
                seconds: started.elapsed().as_secs_f64() + std::mem::take(&mut shared),
            };
            tracing::debug!(name, error = weight.error, damp = weight.damp, "calibrated");
            on_step(CalibrationStep::Weight(&weight));
            found.weights.push(weight);
            values.extend(stored(name, view, &solution));
            found.scales.extend(solution.scales.map(|scales| (name.clone(), scales)));
        }
        Ok(values)
    }

    pub(super) fn factor(
        &self,
        site: &Site,
        moments: &Moments,
        config: &CalibrateConfig,
    ) -> Result<Damped, CalibrateError> {
        let n = moments.second.nrows();
        let finite = (0..n).all(|j| moments.second.col(j).iter().all(|value| value.is_finite()));
        if !finite {
            let name = self.weights[site.weights[0]].name.clone();
            return Err(CalibrateError::NotFinite { name });
        }
        Ok(Damped::new(&moments.second, config.damp(), threads()))
    }

    pub(super) fn task<'a, M: Module, B: Blocks<M>>(
        &self,
        planned: &PlannedWeight,
        walk: &Walk<'a, M, B>,
    ) -> Task<'a> {
        let bias = bias_of(&planned.name);
        let names = BTreeSet::from([planned.name.clone(), bias.clone()]);
        let mut found = read(&walk.pruned, &names);
        let (rows, cols) = (planned.view.rows(), planned.view.cols());
        let stored = found.remove(&planned.name).unwrap_or_default();
        let matrix = planned.view.to_matrix(&stored);
        let bias = found.remove(&bias);
        Task {
            weights: Mat::from_fn(cols, rows, |col, row| f64::from(matrix[row * cols + col])),
            bias: bias.map(|bias| bias.into_iter().map(f64::from).collect()),
            pattern: planned.pattern,
            sparsity: planned.schedule.target,
            packs: planned.schedule.target > 0.0 || planned.distribution == Distribution::Global,
            seed: self.seed,
            config: walk.config,
        }
    }
}

/// Returns the values of a weight and of its bias in the layer's storage order, by path.
fn stored(name: &str, view: &View, solution: &Solution) -> BTreeMap<String, Vec<f32>> {
    let (rows, cols) = (view.rows(), view.cols());
    let matrix: Vec<f32> =
        (0..rows * cols).map(|at| solution.weights[(at % cols, at / cols)] as f32).collect();
    let mut values = BTreeMap::from([(name.to_string(), view.to_stored(&matrix))]);
    if let Some(bias) = &solution.bias {
        values.insert(bias_of(name), bias.iter().map(|&value| value as f32).collect());
    }
    values
}
