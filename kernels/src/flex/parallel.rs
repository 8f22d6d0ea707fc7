use std::cell::RefCell;

/// Multiply-adds below which waking a second thread costs more than it brings.
const WORTH_A_THREAD: usize = 1 << 16;

/// How many threads are worth `work` multiply-adds.
pub(crate) fn threads(work: usize) -> usize {
    (work / WORTH_A_THREAD).clamp(1, rayon::current_num_threads())
}

/// Runs `each(part, parts)` for all parts, on as many threads.
pub(crate) fn for_each_part(parts: usize, each: impl Fn(usize) + Sync) {
    match parts {
        0 => {}
        1 => each(0),
        2 => {
            rayon::join(|| each(0), || each(1));
        }
        _ => rayon::scope(|scope| {
            let each = &each;
            (1..parts).for_each(|part| scope.spawn(move |_| each(part)));
            each(0);
        }),
    }
}

/// The half-open range of `len` items that `part` of `parts` handles.
pub(crate) fn part(len: usize, part: usize, parts: usize) -> std::ops::Range<usize> {
    len * part / parts..len * (part + 1) / parts
}

/// Hands out a buffer of `len` floats of unspecified content, kept by this thread between calls.
pub(crate) fn with_scratch<R>(len: usize, use_it: impl FnOnce(&mut [f32]) -> R) -> R {
    thread_local! {
        static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    }
    // Taken out while in use: a thread that waits in here may be given other work that needs scratch.
    let mut buffer = SCRATCH.with(|scratch| std::mem::take(&mut *scratch.borrow_mut()));
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    let result = use_it(&mut buffer[..len]);
    SCRATCH.with(|scratch| *scratch.borrow_mut() = buffer);
    result
}

/// A pointer that several threads write through, each to places of its own.
#[derive(Clone, Copy)]
pub(crate) struct Shared(*mut f32);

impl Shared {
    pub(crate) fn new(slice: &mut [f32]) -> Self {
        Self(slice.as_mut_ptr())
    }

    pub(crate) fn get(self) -> *mut f32 {
        self.0
    }
}

// SAFETY: users split the places among threads before they write.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}
