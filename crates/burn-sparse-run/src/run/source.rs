use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use super::RunError;
use crate::Task;

/// Source of a task's data. Keeps the last loaded data, so that consecutive runs share it.
pub struct DataSource<'a, T: Task> {
    folder: Option<&'a Path>,
    loaded: RefCell<Option<(u64, Rc<T::Data>)>>,
}

impl<'a, T: Task> DataSource<'a, T> {
    /// Loads from this folder, or from the data set's own cache.
    pub fn new(folder: Option<&'a Path>) -> Self {
        Self { folder, loaded: RefCell::new(None) }
    }

    /// Loads the data of a seed.
    pub(crate) fn load(&self, task: &T, seed: u64) -> Result<Rc<T::Data>, RunError> {
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
