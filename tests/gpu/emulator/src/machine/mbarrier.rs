//! Barriers in shared memory, `mbarrier`: threads arrive at one, and copies deliver bytes that it has been told to
//! expect. When none is missing, its phase ends and the next one begins.

use super::shared::Shared;
use super::tensor_map::TensorMap;
use super::warp::Copy;

/// State of an `mbarrier`; its encoding in eight bytes is specific to this emulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mbarrier {
    /// Parity of the current phase: 0, 1, 0 and so on.
    pub parity: u64,
    /// Threads expected in every phase, and those still missing in the current one.
    threads: i64,
    missing: i64,
    /// Bytes expected but not delivered yet.
    bytes: i64,
}

/// Bits of each count in the encoding.
const BITS: u32 = 21;
const MASK: u64 = (1 << BITS) - 1;
/// Maximum of a count (PTX ISA, "Contents of the mbarrier object").
const MOST: i64 = (1 << 20) - 1;

impl Mbarrier {
    pub(crate) fn new(threads: u64) -> Self {
        let threads = threads as i64;
        Self { parity: 0, threads, missing: threads, bytes: 0 }
    }

    pub(crate) fn of(word: u64) -> Self {
        // The highest bit of a number is its sign.
        let number = |from: u32| ((word >> from & MASK) as i64) << (64 - BITS) >> (64 - BITS);
        Self {
            parity: word >> 63,
            threads: number(0),
            missing: number(BITS),
            bytes: number(2 * BITS),
        }
    }

    /// Encodes the state in eight bytes; returns an error if a count is out of range.
    pub(crate) fn word(self) -> Result<u64, String> {
        let Self { parity, threads, missing, bytes } = self;
        if !(1..=MOST).contains(&threads) || !(0..=MOST).contains(&missing) || bytes.abs() > MOST {
            return Err(format!(
                "an mbarrier of {threads} threads, {missing} missing, and {bytes} bytes to come"
            ));
        }
        let part = |number: i64, from: u32| (number as u64 & MASK) << from;
        Ok(parity << 63 | part(threads, 0) | part(missing, BITS) | part(bytes, 2 * BITS))
    }

    /// Records that `arrive` threads arrive (if negative, that more are expected) and that `expect` more bytes are
    /// expected (if negative, that they were delivered); ends the phase when nothing is missing.
    pub(crate) fn update(self, arrive: i64, expect: i64) -> Self {
        let mut next = self;
        next.missing -= arrive;
        next.bytes += expect;
        if next.missing == 0 && next.bytes == 0 {
            next.parity ^= 1;
            next.missing = next.threads;
        }
        next
    }
}

/// Copy in flight to shared memory, and the `mbarrier` that tracks its completion.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub mbarrier: u64,
    pub what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    /// A bulk copy.
    Linear { to: u64, from: u64, bytes: usize },
    /// A box of a tensor.
    Tile { to: u64, map: TensorMap, at: Vec<i32> },
    /// `cp.async` copies of one thread, which belongs to this warp.
    Copies(u16, Vec<Copy>),
}

impl Shared {
    /// Adds a copy whose completion the `mbarrier` at address `mbarrier` tracks.
    pub(crate) fn await_at(&mut self, mbarrier: u64, what: What) {
        self.awaited.push(Awaited { mbarrier, what });
    }

    pub(crate) fn mbarrier(&mut self, at: u64) -> Result<Mbarrier, String> {
        let mut word = 0;
        self.update(at, 8, |bytes| {
            word = bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        })?;
        Ok(Mbarrier::of(word))
    }

    /// Changes the `mbarrier` at `at` and returns its previous state.
    pub(crate) fn update_mbarrier(
        &mut self,
        at: u64,
        change: impl FnOnce(Mbarrier) -> Mbarrier,
    ) -> Result<Mbarrier, String> {
        let (mut old, mut refused) = (0, Ok(()));
        self.update(at, 8, |bytes| {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            old = u64::from_le_bytes(word);
            match change(Mbarrier::of(old)).word() {
                Ok(new) => bytes.copy_from_slice(&new.to_le_bytes()),
                Err(error) => refused = Err(error),
            }
        })?;
        self.mbarrier_changes += 1;
        refused.map(|()| Mbarrier::of(old))
    }
}
