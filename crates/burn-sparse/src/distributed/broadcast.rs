use burn::module::Module;
use burn::store::{ModuleRecord, RecordError};
use burn::tensor::Bytes;

use super::{RankFailed, Ranks};

impl Ranks {
    /// Returns the model with the parameters of rank 0, including their ids, by which optimizer state is recorded.
    ///
    /// # Errors
    /// Returns an error when the model of a rank has different parameters than that of rank 0; all ranks return it.
    pub fn broadcast<M: Module>(&self, model: M) -> Result<M, RankFailed> {
        if self.size() == 1 {
            return Ok(model);
        }
        let fail = |error: RecordError| RankFailed { rank: self.rank(), reason: error.to_string() };
        let bytes = self.lead(|| {
            let bytes = model.clone().into_record().into_bytes().map_err(fail)?;
            Ok::<_, RankFailed>(bytes.to_vec())
        })?;
        let loaded = match self.is_first() {
            true => Ok(model),
            false => ModuleRecord::from_bytes(Bytes::from_bytes_vec(bytes))
                .and_then(|record| model.try_load_record(record)),
        };
        self.agree(loaded.map_err(fail))
    }
}
