use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::{Communicator, Traffic};

/// Ranks that train one model together; a single process is one rank, which sends nothing.
///
/// All ranks call its methods in the same order.
#[derive(Debug, Clone)]
pub struct Ranks {
    communicator: Option<Arc<dyn Communicator>>,
    traffic: Arc<Mutex<Traffic>>,
}

impl Ranks {
    /// Returns the only rank of a program that runs alone.
    pub fn alone() -> Self {
        Self { communicator: None, traffic: Arc::default() }
    }

    /// Returns the ranks of a communicator.
    pub fn new(communicator: impl Communicator + 'static) -> Self {
        Self::shared(Arc::new(communicator))
    }

    /// Returns the ranks of a communicator that the program also keeps.
    pub fn shared(communicator: Arc<dyn Communicator>) -> Self {
        let many = communicator.size() > 1;
        Self { communicator: many.then_some(communicator), traffic: Arc::default() }
    }

    /// Returns the number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.communicator.as_ref().map_or(0, |all| all.rank())
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.communicator.as_ref().map_or(1, |all| all.size())
    }

    /// Returns `true` for rank 0, which writes files and reports.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Returns this rank's share of a batch: the ranks' shares are consecutive, and their sizes differ by at most one sample.
    /// Some are empty if there are more ranks than samples.
    pub fn share<'a, S>(&self, batch: &'a [S]) -> &'a [S] {
        &batch[self.range(batch.len())]
    }

    fn range(&self, len: usize) -> Range<usize> {
        let (rank, size) = (self.rank(), self.size());
        len * rank / size..len * (rank + 1) / size
    }

    /// Returns `true` on all ranks if `here` is `true` on one of them.
    pub fn any(&self, here: bool) -> bool {
        self.gather(&[u8::from(here)]).iter().any(|there| there == &[1])
    }

    /// Returns the mean of a value, weighted by samples, over all ranks.
    pub fn mean(&self, value: f64, samples: usize) -> f64 {
        if self.size() == 1 {
            return value;
        }
        let mine = [value.to_le_bytes(), (samples as u64).to_le_bytes()].concat();
        let (mut sum, mut all) = (0.0, 0);
        for there in self.gather(&mine) {
            let (value, samples) = (f64::from_bits(word(&there, 0)), word(&there, 1));
            // A rank without samples may have no value.
            if samples > 0 {
                sum += value * samples as f64;
                all += samples;
            }
        }
        sum / all as f64
    }

    /// Returns and resets the message counts, which clones share.
    pub fn take_traffic(&self) -> Traffic {
        std::mem::take(&mut self.traffic())
    }

    fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Communicator::gather`].
    pub(crate) fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let Some(all) = &self.communicator else { return vec![bytes.to_vec()] };
        let started = Instant::now();
        let found = all.gather(bytes);
        self.traffic().add(0, started);
        found
    }

    /// As [`Communicator::sum`].
    pub(super) fn sum(&self, values: &mut [f32]) {
        let Some(all) = &self.communicator else { return };
        let started = Instant::now();
        all.sum(values);
        self.traffic().add(size_of_val(values), started);
    }

    /// Returns the bytes of rank 0 on all ranks.
    pub(super) fn bytes_of_first(&self, bytes: Vec<u8>) -> Vec<u8> {
        let Some(all) = &self.communicator else { return bytes };
        let mut count = (bytes.len() as u64).to_le_bytes();
        all.broadcast(&mut count);
        let mut bytes = bytes;
        bytes.resize(u64::from_le_bytes(count) as usize, 0);
        all.broadcast(&mut bytes);
        bytes
    }
}

/// Returns the number at eight-byte position `at` of a message; 0 if the message is shorter.
pub(super) fn word(message: &[u8], at: usize) -> u64 {
    let bytes = message.get(8 * at..8 * at + 8).and_then(|bytes| bytes.try_into().ok());
    u64::from_le_bytes(bytes.unwrap_or_default())
}
