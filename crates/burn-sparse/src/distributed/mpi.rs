use std::fmt::{self, Debug, Formatter};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::datatype::PartitionMut;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator as _, CommunicatorCollectives, Root};

use super::{Communicator, MpiError};

/// Bytes broadcast in one call: MPI counts in 32 bits.
const PIECE: usize = 1 << 30;

/// How long a failed rank waits for the others to fail too.
const PATIENCE: Duration = Duration::from_secs(10);

/// All processes that `mpirun`, `srun`, or another launcher has started.
///
/// Drop it on the thread that initialized it: dropping finalizes MPI, which waits for all ranks, or aborts all of them if this
/// one is panicking. A rank that returns early leaves the others waiting: pass results that may be errors through
/// [`Ranks::agree`](super::Ranks::agree), or call [`Self::abort`].
pub struct Mpi {
    rank: usize,
    size: usize,
    world: SimpleCommunicator,
    /// Separate communicator, because ranks may fail between any calls of the others.
    failed: SimpleCommunicator,
    /// Receives sums; its lock is held during every MPI call.
    sums: Mutex<Vec<f32>>,
    /// Finalizes MPI after the communicators are dropped.
    _universe: Universe,
}

// SAFETY: MPI was initialized for calls from any thread, one at a time, which the lock on `sums` ensures.
unsafe impl Send for Mpi {}
// SAFETY: as above.
unsafe impl Sync for Mpi {}

impl Mpi {
    /// Initializes MPI.
    ///
    /// # Errors
    /// Returns an error when it has been initialized before, or the library does not allow calls
    /// from several threads in turn.
    pub fn init() -> Result<Self, MpiError> {
        let found = mpi::initialize_with_threading(Threading::Serialized);
        let (universe, threading) = found.ok_or(MpiError::Initialized)?;
        let found = match threading {
            Threading::Single => Some("one thread"),
            Threading::Funneled => Some("calls from the main thread"),
            _ => None,
        };
        if let Some(found) = found {
            return Err(MpiError::Threads { found });
        }
        let world = universe.world();
        let failed = world.duplicate();
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        Ok(Self { rank, size, world, failed, sums: Mutex::default(), _universe: universe })
    }

    /// Returns the number of threads that each rank should have: the cores that this rank may use, divided among the ranks on
    /// this machine that may use the same cores.
    pub fn threads(&self) -> usize {
        let machine = mpi::environment::processor_name().unwrap_or_default();
        // Where Linux's file does not exist, ranks of one machine share all cores.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let cores = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
        let here = format!("{machine} {}", cores.unwrap_or_default());
        let sharing = self.gather(here.as_bytes());
        let sharing = sharing.iter().filter(|there| *there == here.as_bytes()).count();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (cores / sharing.max(1)).max(1)
    }

    /// Waits until every rank has called this, as all do after an error that they agree on. Returns `false` after ten seconds;
    /// then only [`Self::abort`] ends the others.
    pub fn have_all_failed(&self) -> bool {
        let _held = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let mut barrier = self.failed.immediate_barrier();
        let started = Instant::now();
        loop {
            match barrier.test() {
                Ok(_) => return true,
                Err(waiting) if started.elapsed() < PATIENCE => barrier = waiting,
                Err(waiting) => {
                    // Freeing a request that is in progress is not allowed; the process ends with it.
                    std::mem::forget(waiting);
                    return false;
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends all ranks at once.
    pub fn abort(&self) -> ! {
        self.world.abort(1)
    }
}

impl Communicator for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn sum(&self, values: &mut [f32]) {
        if values.is_empty() {
            return;
        }
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.resize(values.len(), 0.0);
        self.world.all_reduce_into(values, sums.as_mut_slice(), SystemOperation::sum());
        values.copy_from_slice(&sums);
    }

    fn broadcast(&self, bytes: &mut [u8]) {
        let _held = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in bytes.chunks_mut(PIECE) {
            self.world.process_at_rank(0).broadcast_into(piece);
        }
    }

    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let _held = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        // Every rank sends at least one byte: Rust's pointer to an empty slice may be the address that means "in place" to MPI.
        let sent = [bytes, &[0]].concat();
        let mut counts = vec![0_i32; self.size()];
        self.world.all_gather_into(&(sent.len() as i32), counts.as_mut_slice());
        let mut starts = Vec::with_capacity(counts.len());
        let mut all = 0;
        for count in &counts {
            starts.push(all);
            all += count;
        }
        let mut found = vec![0_u8; all as usize];
        let mut parts =
            PartitionMut::new(found.as_mut_slice(), counts.as_slice(), starts.as_slice());
        self.world.all_gather_varcount_into(sent.as_slice(), &mut parts);
        let parts = starts.iter().zip(&counts);
        let part =
            |(&from, &count): (&i32, &i32)| &found[from as usize..(from + count - 1) as usize];
        parts.map(|at| part(at).to_vec()).collect()
    }
}

impl Debug for Mpi {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Mpi(rank {} of {})", self.rank(), self.size())
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.abort();
        }
    }
}
