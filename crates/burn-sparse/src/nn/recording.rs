use std::cell::RefCell;
use std::thread::LocalKey;

/// Runs `forward` with `record` in a cell of this thread, and returns its result and the record. What was in the cell before is put
/// back, even if `forward` panics: layers would go on recording.
pub(super) fn recording<T, R>(
    cell: &'static LocalKey<RefCell<Option<T>>>,
    record: T,
    forward: impl FnOnce() -> R,
) -> (R, T) {
    let outer = Outer { cell, record: cell.replace(Some(record)) };
    let result = forward();
    let record = cell.take().expect("every recording puts back what was before it");
    drop(outer);
    (result, record)
}

/// Record that is put back when dropped.
struct Outer<T: 'static> {
    cell: &'static LocalKey<RefCell<Option<T>>>,
    record: Option<T>,
}

impl<T> Drop for Outer<T> {
    fn drop(&mut self) {
        self.cell.set(self.record.take());
    }
}
