use std::collections::BTreeMap;

use burn::module::Module;
use burn_sparse_pattern::RowOrder;

use super::{Checkpoint, CheckpointError};
use crate::prune::{Horizon, Plan, Pruning};
use crate::train::Sparse;

impl Checkpoint {
    /// Loads the parameters into a model of the same architecture, under the fixed masks of the packed weights: dropped weights
    /// stay zero and get no gradient (sparse transfer). Of `pruning`, only the seed and the treatment of the optimizer's state
    /// apply.
    ///
    /// # Errors
    /// Returns an error when the parameters do not fit the model, or no weight is packed.
    pub fn keep_zeros<M: Module>(
        &self,
        model: M,
        pruning: impl Into<Pruning>,
        horizon: Horizon,
    ) -> Result<Sparse<M>, CheckpointError> {
        let masks: BTreeMap<String, (Vec<u8>, Vec<u32>)> = self
            .packed()
            .map(|(name, entry)| {
                let keep = entry.view.to_stored(&entry.packed.mask().to_bytes());
                let identity = RowOrder::identity(entry.view.rows());
                let order = entry.packed.row_order().unwrap_or(&identity);
                (name.to_string(), (keep, order.as_slice().to_vec()))
            })
            .collect();
        if masks.is_empty() {
            return Err(CheckpointError::NothingPacked);
        }
        let model = self.load_dense(model)?;
        let plan = Plan::keeping(&pruning.into(), &model, &self.entries, horizon);
        Ok(plan.attach(model)?.with_masks(masks))
    }
}
