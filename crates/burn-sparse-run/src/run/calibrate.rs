use std::time::Instant;

use burn::module::Module;
use burn_sparse::calibrate::CalibrationStep;
use burn_sparse::prune::Plan;
use burn_sparse::train::Sparse;
use rand::SeedableRng;
use rand::seq::index;
use rand_chacha::ChaCha8Rng;

use super::session::Session;
use super::{Observer, RunError, RunFolder};
use crate::recipe::Calibrate;
use crate::{CalibratedPruning, CalibrationRecord, Task};

impl<T: Task> Session<'_, T> {
    /// Prunes and repairs a model by the inputs that its layers get from training samples, on rank 0, and keeps the record in
    /// the run's folder.
    pub(super) fn calibrate(
        &self,
        plan: Plan,
        model: T::Model,
        table: &Calibrate,
        observer: &mut dyn Observer,
    ) -> Result<Sparse<T::Model>, RunError> {
        let mut calibrated = None;
        self.folder.write(|folder| {
            calibrated = Some(self.calibrated(&plan, model.clone(), table, folder, observer)?);
            Ok(())
        })?;
        let sparse = match calibrated {
            Some(sparse) => sparse,
            None => plan.with_fixed_masks().attach(model)?,
        };
        Ok(self.ranks.broadcast(sparse)?)
    }

    fn calibrated(
        &self,
        plan: &Plan,
        model: T::Model,
        table: &Calibrate,
        folder: &RunFolder,
        observer: &mut dyn Observer,
    ) -> Result<Sparse<T::Model>, RunError> {
        let len = self.task.train_len();
        let mut random = ChaCha8Rng::seed_from_u64(self.recipe.seed);
        let samples = index::sample(&mut random, len, table.samples.min(len)).into_vec();
        let started = Instant::now();
        let (dense, device) = (model.valid(), self.device.clone().inner());
        let config = table.config();
        let mut on_step = |step: CalibrationStep<'_>| observer.calibrated(step);
        let pruning = CalibratedPruning { samples: &samples, plan, config: &config };
        let found = self.task.calibrate(&dense, self.data, pruning, &mut on_step, &device)?;
        folder.save_calibration(&CalibrationRecord {
            config,
            samples: samples.len(),
            hash: self.task.calibration_hash(self.data, &samples),
            weights: found.weights().to_vec(),
            blocks: found.blocks().to_vec(),
            seconds: started.elapsed().as_secs_f64(),
        })?;
        Ok(found.attach(model)?)
    }
}
