//! Ranks that are threads of one process, in place of MPI.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use burn_sparse::distributed::{Communicator, Ranks};

/// Time after which a rank that is waited for counts as gone.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs `work` on so many ranks at once, and returns what each returns.
///
/// # Panics
/// Panics if a rank does, or does not answer for two minutes.
pub fn on_ranks<T: Send>(size: usize, work: impl Fn(Ranks) -> T + Sync) -> Vec<T> {
    let table = Arc::new(Table { round: Mutex::new(Round::default()), changed: Condvar::new() });
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                let (table, work) = (table.clone(), &work);
                scope.spawn(move || work(Ranks::new(Thread { rank, size, table })))
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().expect("a rank")).collect()
    })
}

#[derive(Debug)]
struct Thread {
    rank: usize,
    size: usize,
    table: Arc<Table>,
}

#[derive(Debug)]
struct Table {
    round: Mutex<Round>,
    changed: Condvar,
}

/// Messages of one call, by rank.
#[derive(Debug, Default)]
struct Round {
    given: Vec<(usize, Vec<u8>)>,
    taken: usize,
}

impl Communicator for Thread {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn sum(&self, values: &mut [f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        values.fill(0.0);
        for there in self.gather(&bytes) {
            let numbers =
                there.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            values.iter_mut().zip(numbers).for_each(|(sum, value)| *sum += value);
        }
    }

    fn broadcast(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.gather(bytes)[0]);
    }

    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let wait = |round, until: &dyn Fn(&mut Round) -> bool| {
            let waited =
                self.table.changed.wait_timeout_while(round, PATIENCE, |round| !until(round));
            let (round, late) = waited.expect("no rank has panicked");
            assert!(!late.timed_out(), "rank {}: another rank is gone", self.rank);
            round
        };
        let mut round = self.table.round.lock().expect("no rank has panicked");
        round.given.push((self.rank, bytes.to_vec()));
        self.table.changed.notify_all();
        let mut round = wait(round, &|round| round.given.len() == self.size);
        let mut found = round.given.clone();
        round.taken += 1;
        if round.taken == self.size {
            *round = Round::default();
            self.table.changed.notify_all();
        } else {
            drop(wait(round, &|round| round.taken == 0));
        }
        found.sort_by_key(|(rank, _)| *rank);
        found.into_iter().map(|(_, bytes)| bytes).collect()
    }
}
