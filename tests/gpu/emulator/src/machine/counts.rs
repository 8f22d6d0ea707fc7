//! Counters of what determines a kernel's speed regardless of the device's clock: the instructions its warps issue, and
//! the units of memory (wavefronts, sectors) that its accesses move, next to the minimum that could hold the same
//! bytes.

/// Bytes of a sector, the unit in which global memory is moved.
const SECTOR: u64 = 32;
/// Number of shared memory banks, each one word of four bytes wide.
const BANKS: usize = 32;

/// Counters of one launch, or of one of its blocks.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    /// Instructions that warps have issued.
    pub instructions: u64,
    /// Multiply-adds of `mma` and `wgmma`.
    pub products: u64,
    /// Shared memory traffic in wavefronts: one word of every bank.
    pub shared: Traffic,
    /// Global memory traffic in sectors.
    pub global: Traffic,
}

/// Units of memory that were moved, and the minimum possible.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Traffic {
    pub pieces: u64,
    pub fewest: u64,
}

impl Traffic {
    fn add(&mut self, pieces: u64, fewest: u64) {
        self.pieces += pieces;
        self.fewest += fewest;
    }
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.instructions += other.instructions;
        self.products += other.products;
        self.shared.add(other.shared.pieces, other.shared.fewest);
        self.global.add(other.global.pieces, other.global.fewest);
    }

    /// Counts a shared memory access of `bytes` per lane at the given addresses. As many lanes are served together as
    /// move 128 bytes; among those, words in the same bank are served one after the other.
    pub(crate) fn shared(&mut self, addresses: &[u64], bytes: usize) {
        for together in addresses.chunks((4 * BANKS / bytes.max(4)).max(1)) {
            let words = distinct(together, bytes, 4);
            let mut banks = [0; BANKS];
            for word in &words {
                banks[*word as usize % BANKS] += 1;
            }
            let most = banks.iter().max().copied().unwrap_or_default();
            self.shared.add(most, words.len().div_ceil(BANKS) as u64);
        }
    }

    /// Counts a global memory access of `bytes` per lane.
    pub(crate) fn global(&mut self, addresses: &[u64], bytes: usize) {
        let sectors = distinct(addresses, bytes, SECTOR).len() as u64;
        let all = distinct(addresses, bytes, 1).len() as u64;
        self.global.add(sectors, all.div_ceil(SECTOR));
    }

    /// Counts an operand of a matrix instruction, which reads whole rows of shared memory without bank conflicts.
    pub(crate) fn operand(&mut self, bytes: usize) {
        let wavefronts = bytes.div_ceil(4 * BANKS) as u64;
        self.shared.add(wavefronts, wavefronts);
    }
}

/// Returns the distinct units of `size` bytes that accesses of `bytes` touch.
fn distinct(addresses: &[u64], bytes: usize, size: u64) -> Vec<u64> {
    let of = |at: &u64| at / size..=(at + bytes as u64 - 1) / size;
    let mut pieces: Vec<u64> = addresses.iter().flat_map(of).collect();
    pieces.sort_unstable();
    pieces.dedup();
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(stride: u64, bytes: usize) -> (u64, u64) {
        let mut counts = Counts::default();
        counts.shared(&(0..32).map(|lane| lane * stride).collect::<Vec<_>>(), bytes);
        (counts.shared.pieces, counts.shared.fewest)
    }

    #[test]
    fn lanes_that_meet_in_a_bank_take_turns() {
        assert_eq!(shared(4, 4), (1, 1));
        // Two halves of each word; every second bank; one bank.
        assert_eq!(shared(2, 2), (1, 1));
        assert_eq!(shared(8, 4), (2, 1));
        assert_eq!(shared(128, 4), (32, 1));
        // All lanes read the same word.
        assert_eq!(shared(0, 4), (1, 1));
        // 16 bytes per lane: eight lanes at a time, dense or in rows of 128 bytes.
        assert_eq!(shared(16, 16), (4, 4));
        assert_eq!(shared(128, 16), (32, 4));
    }

    #[test]
    fn scattered_lanes_take_a_sector_each() {
        let mut counts = Counts::default();
        counts.global(&(0..32).map(|lane| lane * 4).collect::<Vec<_>>(), 4);
        counts.global(&(0..32).map(|lane| lane * 64).collect::<Vec<_>>(), 4);
        assert_eq!((counts.global.pieces, counts.global.fewest), (4 + 32, 4 + 4));
    }
}
