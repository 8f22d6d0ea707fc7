use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rayon::prelude::*;

/// Seconds of work below which waking another thread costs more than it saves.
const WORTH_A_THREAD: f64 = 10e-6;

/// Approximate multiply-adds and bytes that one thread processes per second. Only the decision whether to divide
/// work among threads depends on them.
const MULTIPLY_ADDS: f64 = 80e9;
const BYTES: f64 = 50e9;

/// Seconds of work above which all of it is left to the rayon thread pool.
const WORTH_THE_POOL: f64 = 200e-6;

/// Time that a helping thread waits for more work before it sleeps: the next layer of a model comes within this time.
const LINGER: Duration = Duration::from_micros(100);

/// Maximum time that a thread keeps helping, after which it returns to the work it was waiting for. The next job wakes another
/// thread.
const LONGEST: Duration = Duration::from_millis(20);

/// Number of ranges per thread, so that a thread that wakes late still finds some.
const PARTS_PER_THREAD: usize = 4;

/// Threads that share a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Team {
    /// Number of threads that are worth using.
    pub(crate) threads: usize,
    /// `true` if the calling thread leaves the work to the thread pool.
    pool: bool,
}

/// Chooses the threads for `work` multiply-adds over `bytes` of weights.
pub(crate) fn team(work: usize, bytes: usize) -> Team {
    let seconds = (work as f64 / MULTIPLY_ADDS).max(bytes as f64 / BYTES);
    let threads = ((seconds / WORTH_A_THREAD) as usize).clamp(1, rayon::current_num_threads());
    Team { threads, pool: seconds > WORTH_THE_POOL }
}

/// Work in parts that threads take one after the other.
struct Job {
    next: AtomicUsize,
    done: AtomicUsize,
    parts: usize,
    panicked: AtomicBool,
    each: *const (dyn Fn(usize) + Sync),
}

// SAFETY: `each` may be called from any thread, and is only called while the caller waits for `done`.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    /// Takes parts until none are left.
    fn work(&self) {
        loop {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= self.parts {
                return;
            }
            let done = Done(self);
            // SAFETY: each part below `parts` is taken once; the caller of `for_each_part`, who owns `each`, waits
            // until all parts that were taken are done. A thread that starts late takes none and never touches `each`.
            unsafe { (*self.each)(part) };
            drop(done);
        }
    }
}

/// Most recent job, for threads that linger.
static POSTED: Mutex<Option<Arc<Job>>> = Mutex::new(None);
/// Number of jobs that were posted.
static POSTS: AtomicUsize = AtomicUsize::new(0);
/// Number of threads that linger.
static LINGERING: AtomicUsize = AtomicUsize::new(0);

fn posted() -> std::sync::MutexGuard<'static, Option<Arc<Job>>> {
    // A job is replaced as a whole: nothing is left half written.
    POSTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks up to `helpers` threads to take parts of a job: those that linger, which start within a microsecond, and others
/// that must wake.
fn post(job: &Arc<Job>, helpers: usize) {
    *posted() = Some(job.clone());
    POSTS.fetch_add(1, Ordering::Release);
    for _ in LINGERING.load(Ordering::Relaxed)..helpers {
        let job = job.clone();
        rayon::spawn(move || {
            let posts = POSTS.load(Ordering::Acquire);
            job.work();
            linger(posts);
        });
    }
}

/// Takes parts of the jobs that are posted after the first `posts` ones, until none is posted for a while. Does not
/// delay other work of the thread pool.
fn linger(mut posts: usize) {
    thread_local! {
        static LINGERS: Cell<bool> = const { Cell::new(false) };
    }
    /// Stops lingering when dropped, even if a part panicked: no thread would be woken in place of this one.
    struct Ends;
    impl Drop for Ends {
        fn drop(&mut self) {
            LINGERING.fetch_sub(1, Ordering::Relaxed);
            LINGERS.set(false);
        }
    }
    // While it lingers, this thread may have taken other work of the pool that helped with a job, too.
    if LINGERS.replace(true) {
        return;
    }
    LINGERING.fetch_add(1, Ordering::Relaxed);
    let _ends = Ends;
    let begun = Instant::now();
    let mut since = begun;
    while since.elapsed() < LINGER && begun.elapsed() < LONGEST {
        for _ in 0..32 {
            std::hint::spin_loop();
        }
        let now = POSTS.load(Ordering::Acquire);
        if now != posts {
            posts = now;
            let job = posted().clone();
            if let Some(job) = job {
                job.work();
            }
            since = Instant::now();
        } else if rayon::yield_now() == Some(rayon::Yield::Executed) {
            since = Instant::now();
        } else {
            // Lets another thread run if there are more threads than cores.
            std::thread::yield_now();
        }
    }
}

/// Counts a part as done when dropped, even if the part panicked: the caller must not wait forever.
struct Done<'a>(&'a Job);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.panicked.store(true, Ordering::Relaxed);
        }
        self.0.done.fetch_add(1, Ordering::Release);
    }
}

/// Runs `each(part)` for all `parts`.
///
/// Short work runs on the calling thread, which starts at once, and on those rayon threads that linger after the last job
/// or wake in time: handing work over and being woken again takes 30 to 40 µs on the machines measured. Long work is
/// handed over to the thread pool: alongside a full pool, the calling thread would be one thread too many for the cores.
pub(crate) fn for_each_part(parts: usize, team: Team, each: impl Fn(usize) + Sync) {
    if team.threads < 2 || parts < 2 {
        return (0..parts).for_each(each);
    }
    if team.pool || rayon::current_thread_index().is_some() {
        return (0..parts).into_par_iter().with_max_len(1).for_each(&each);
    }
    let threads = team.threads;
    let each: &(dyn Fn(usize) + Sync) = &each;
    // SAFETY: only the lifetime changes; `Job::work` explains why no call outlives this function.
    let each = unsafe {
        std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(each)
    };
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let job = Job { next, done, parts, panicked: AtomicBool::new(false), each };
    let job = Arc::new(job);
    post(&job, threads.min(parts) - 1);
    let wait = Wait(&job);
    job.work();
    drop(wait);
    // An application may have configured rayon to survive panics, but the output of the part is still missing.
    assert!(!job.panicked.load(Ordering::Relaxed), "a thread of the kernel panicked");
}

/// Waits when dropped until no thread runs a part anymore, even if the calling thread's own part panicked: `each` and
/// its borrows end with the caller.
struct Wait<'a>(&'a Job);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        // No more parts can be taken from here on; waits for those that were taken.
        let parts = self.0.parts;
        let taken = self.0.next.swap(parts, Ordering::Relaxed).min(parts);
        let mut spins = 0_u32;
        while self.0.done.load(Ordering::Acquire) < taken {
            spins += 1;
            // Parts are short, but a thread that lost its core should get it back.
            if spins.is_multiple_of(1 << 12) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// Runs `each` on ranges that cover all `len` items.
pub(crate) fn for_each_range(len: usize, team: Team, each: impl Fn(Range<usize>) + Sync) {
    let parts = if team.threads > 1 { (team.threads * PARTS_PER_THREAD).min(len) } else { 1 };
    for_each_part(parts, team, |at| each(part(len, at, parts)));
}

/// Returns the half-open range of `len` items that `part` of `parts` handles.
pub(crate) fn part(len: usize, part: usize, parts: usize) -> Range<usize> {
    len * part / parts..len * (part + 1) / parts
}

/// One cache line: a vector that straddles two costs two accesses.
#[derive(Clone, Copy)]
#[repr(align(64))]
#[allow(dead_code, reason = "only its size and alignment are used")]
struct Line([f32; 16]);

/// Calls `use_it` with a buffer of `len` floats of unspecified content, aligned to cache lines. The thread keeps the
/// buffer between calls, plus one for every nested call.
pub(crate) fn with_scratch<R>(len: usize, use_it: impl FnOnce(&mut [f32]) -> R) -> R {
    thread_local! {
        static SCRATCH: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
    }
    // Taken out while in use: a thread that waits in `use_it` may be given other work that needs scratch memory.
    let mut lines = SCRATCH.with(|scratch| scratch.borrow_mut().pop()).unwrap_or_default();
    if lines.len() * 16 < len {
        lines.resize(len.div_ceil(16), Line([0.0; 16]));
    }
    // SAFETY: a line is 16 floats without padding, and there are at least `len` of them.
    let floats = unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<f32>(), len) };
    let result = use_it(floats);
    SCRATCH.with(|scratch| scratch.borrow_mut().push(lines));
    result
}

/// Pointer that several threads write through, each to its own elements.
#[derive(Clone, Copy)]
pub(crate) struct Shared(*mut f32);

impl Shared {
    pub(crate) fn new(slice: &mut [f32]) -> Self {
        Self(slice.as_mut_ptr())
    }

    /// Points to the spare capacity of an empty vector.
    pub(crate) fn spare(vector: &mut Vec<f32>) -> Self {
        Self(vector.as_mut_ptr())
    }

    pub(crate) fn get(self) -> *mut f32 {
        self.0
    }

    /// Points to the elements from `first` on.
    ///
    /// # Safety
    /// There must be as many elements.
    pub(crate) unsafe fn at(self, first: usize) -> Self {
        // SAFETY: guaranteed by the caller.
        Self(unsafe { self.0.add(first) })
    }
}

// SAFETY: users divide the elements among threads before they write.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_runs_once_whoever_runs_it() {
        for threads in [1, 2, 3, 7] {
            for parts in [0, 1, 2, 5, 64] {
                for pool in [false, true] {
                    let counts: Vec<AtomicUsize> =
                        (0..parts).map(|_| AtomicUsize::new(0)).collect();
                    for_each_part(parts, Team { threads, pool }, |part| {
                        counts[part].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
                }
            }
        }
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "a panic ends the program")]
    fn a_panic_of_the_caller_waits_for_the_others() {
        let running = AtomicUsize::new(0);
        let caller = std::thread::current().id();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for_each_part(64, Team { threads: 2, pool: false }, |_| {
                running.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(2));
                running.fetch_sub(1, Ordering::SeqCst);
                assert_ne!(std::thread::current().id(), caller);
            });
        }));
        assert!(result.is_err());
        assert_eq!(running.load(Ordering::SeqCst), 0);
    }
}
