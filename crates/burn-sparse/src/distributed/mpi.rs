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

/// Bytes of a broadcast in one call: MPI counts in 32 bits.
const PIECE: usize = 1 << 30;

/// Time within which all ranks fail that fail together.
const PATIENCE: Duration = Duration::from_secs(10);

/// All processes that `mpirun`, `srun`, or another launcher has started.
///
/// Dropping it finalizes MPI. If this rank is panicking then, it ends all others, which would wait for it.
pub struct Mpi {
    world: SimpleCommunicator,
    /// Communicator of its own, because ranks may fail between any calls of the others.
    failed: SimpleCommunicator,
    /// Held during a call, for calls are made one at a time; a place for the sums.
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
    /// When it has been initialized before, or the library does not allow calls from several threads in turn.
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
        Ok(Self { world, failed, sums: Mutex::default(), _universe: universe })
    }

    /// Returns the number of threads that each rank should have: the cores that this rank may use, divided among the ranks of
    /// this machine that may use the same.
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

    /// Waits until all ranks have failed, as they do when they agree on an error. Returns `false` if some have not within ten
    /// seconds: they wait for this one, and only [`Self::abort`] ends them.
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
        self.world.rank() as usize
    }

    fn size(&self) -> usize {
        self.world.size() as usize
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
        // Nobody sends nothing: Rust's pointer to an empty slice may be the address that means "in place" to MPI.
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
