//! Where a lane finds its own input of a block: in registers, or in memory.

use crate::flex::simd::{Isa, Simd, Work, dispatch};

/// Floats that an in-block byte can name: of so many, a table in memory.
const IN_MEMORY: usize = 256;

/// The inputs of a block, of which every lane picks one.
pub(crate) trait Table<S: Simd>: Copy {
    /// The table whose first float is at `x`.
    unsafe fn at(x: *const f32) -> Self;
    /// In every lane, the float that its index names.
    unsafe fn find(self, index: S::Index) -> S::F;
}

/// `R` registers, at least two, read whole. Of an index as many bits count as name a float in them.
#[derive(Clone, Copy)]
pub(crate) struct InRegisters<F, const R: usize>([F; R]);

impl<S: Simd, const R: usize> Table<S> for InRegisters<S::F, R> {
    #[inline(always)]
    unsafe fn at(x: *const f32) -> Self {
        // SAFETY: the caller vouches for the registers' floats.
        unsafe {
            let mut table = [S::zero(); R];
            for (r, register) in table.iter_mut().enumerate() {
                *register = S::load(x.add(r * S::LANES));
            }
            Self(table)
        }
    }

    #[inline(always)]
    unsafe fn find(self, index: S::Index) -> S::F {
        // SAFETY: the caller runs where the set exists.
        unsafe {
            let mut found = [S::zero(); 4];
            for pair in 0..R / 2 {
                found[pair] = S::look_up(self.0[2 * pair], self.0[2 * pair + 1], index);
            }
            // What two registers hold, then four, then eight.
            if R > 2 {
                found[0] = S::choose(found[0], found[1], index, 2 * S::LANES as i32);
            }
            if R > 4 {
                found[2] = S::choose(found[2], found[3], index, 2 * S::LANES as i32);
                found[0] = S::choose(found[0], found[2], index, 4 * S::LANES as i32);
            }
            found[0]
        }
    }
}

/// As long as a byte reaches.
#[derive(Clone, Copy)]
pub(crate) struct InMemory(*const f32);

impl<S: Simd> Table<S> for InMemory {
    #[inline(always)]
    unsafe fn at(x: *const f32) -> Self {
        Self(x)
    }

    #[inline(always)]
    unsafe fn find(self, index: S::Index) -> S::F {
        // SAFETY: the caller vouches for every float that an index names.
        unsafe { S::gather(self.0, index) }
    }
}

/// What it takes to look up inputs of a block.
pub(crate) struct Size {
    /// Floats that are read, or may be, from the start of the block.
    pub(crate) floats: usize,
    /// Multiply-adds that take as long as a look-up, roughly.
    pub(crate) work: usize,
}

/// The smallest table for blocks of this length.
pub(crate) fn size(block: usize, isa: Isa) -> Size {
    struct Registers;
    impl Work for Registers {
        type Output = [usize; 2];
        #[inline(always)]
        unsafe fn run<S: Simd>(self) -> [usize; 2] {
            [S::LANES, S::TABLE_REGISTERS]
        }
    }
    let [lanes, registers] = dispatch(isa, Registers);
    // Two tables at least must fit, so that tokens share the weights.
    if block > registers / 2 * lanes {
        return Size { floats: IN_MEMORY, work: 16 };
    }
    let floats = block.next_power_of_two().max(2 * lanes);
    // Each register takes a permutation or a choice.
    Size { floats, work: floats / lanes * 16 / lanes }
}
