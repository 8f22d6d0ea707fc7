use std::collections::BTreeMap;

use burn::module::Module;
use burn_sparse_pattern::RowOrder;

use super::{Checkpoint, CheckpointError, Form};
use crate::plan::Plan;
use crate::recipe::Recipe;
use crate::train::Sparse;

impl Checkpoint {
    /// A model of the same architecture with these parameters, under the masks that they have: what was
    /// dropped stays zero and gets no gradient (sparse transfer, "keep-zeros").
    ///
    /// # Errors
    /// When the parameters are not those of the model, or none is packed.
    pub fn keep_zeros<M: Module>(
        &self,
        model: M,
        recipe: &Recipe,
        steps_per_epoch: usize,
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
        let model = self.apply(model, Form::Dense)?;
        let plan = Plan::keeping(recipe, &model, &self.entries, steps_per_epoch);
        Ok(plan.attach(model)?.with_masks(&masks))
    }
}
