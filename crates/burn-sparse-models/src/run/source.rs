use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use burn_sparse_datasets::DatasetError;

use crate::Task;

/// Where a task's data comes from; what was loaded last stays, so that runs one after the other share it.
pub struct DataSource<'a, T: Task> {
    folder: Option<&'a Path>,
    loaded: RefCell<Option<(u64, Rc<T::Data>)>>,
}

impl<'a, T: Task> DataSource<'a, T> {
    /// From this folder, or from wherever the data set keeps itself.
    pub fn new(folder: Option<&'a Path>) -> Self {
        Self { folder, loaded: RefCell::new(None) }
    }

    /// The data of a seed.
    pub(crate) fn load(&self, task: &T, seed: u64) -> Result<Rc<T::Data>, DatasetError> {
        let mut loaded = self.loaded.borrow_mut();
        if let Some((of, data)) = loaded.as_ref()
            && *of == seed
        {
            return Ok(data.clone());
        }
        let data = Rc::new(task.load(self.folder, seed)?);
        *loaded = Some((seed, data.clone()));
        Ok(data)
    }
}
