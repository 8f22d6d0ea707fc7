use burn::module::Module;
use burn::store::{ModuleRecord, RecordError};
use burn::tensor::Bytes;

use super::Ranks;

impl Ranks {
    /// Returns the model with the parameters of rank 0, their ids included: optimizer state is recorded by them.
    ///
    /// # Errors
    /// When this rank's model has other parameters than that of rank 0.
    pub fn broadcast<M: Module>(&self, model: M) -> Result<M, RecordError> {
        if self.size() == 1 {
            return Ok(model);
        }
        let bytes = match self.is_first() {
            true => model.clone().into_record().into_bytes()?.to_vec(),
            false => Vec::new(),
        };
        let bytes = self.bytes_of_first(bytes);
        if self.is_first() {
            return Ok(model);
        }
        model.try_load_record(ModuleRecord::from_bytes(Bytes::from_bytes_vec(bytes))?)
    }
}
