//! Look-up tables for the inputs of a block, in registers or in memory.

use crate::simd::{Isa, Simd, Work, dispatch};

/// Number of floats that an in-block byte can address: the size of a table in memory.
const IN_MEMORY: usize = 256;

/// Inputs of a block, from which every lane selects one.
pub(crate) trait Table<S: Simd>: Copy {
    /// Creates the table whose first float is at `x`.
    unsafe fn at(x: *const f32) -> Self;
    /// Indices of one vector of lanes.
    type Index: Copy;
    /// Returns the indices at `from`, one byte each.
    unsafe fn index(from: *const u8) -> Self::Index;
    /// Returns in every lane the float at its index.
    unsafe fn find(self, index: Self::Index) -> S::F;
}

/// Table in `R` registers, at least two, all fully loaded. Only the index bits that address their floats are used.
#[derive(Clone, Copy)]
pub(crate) struct InRegisters<F, const R: usize>([F; R]);

impl<S: Simd, const R: usize> Table<S> for InRegisters<S::F, R> {
    type Index = S::Index;

    #[inline(always)]
    unsafe fn at(x: *const f32) -> Self {
        // SAFETY: the caller guarantees the floats of all registers.
        unsafe {
            let mut table = [S::zero(); R];
            for (r, register) in table.iter_mut().enumerate() {
                *register = S::load(x.add(r * S::LANES));
            }
            Self(table)
        }
    }

    #[inline(always)]
    unsafe fn index(from: *const u8) -> S::Index {
        // SAFETY: guaranteed by the caller.
        unsafe { S::in_block(from) }
    }

    #[inline(always)]
    unsafe fn find(self, index: S::Index) -> S::F {
        // SAFETY: the caller runs on a CPU that supports the set.
        unsafe {
            let mut found = [S::zero(); 4];
            for pair in 0..R / 2 {
                found[pair] = S::look_up(self.0[2 * pair], self.0[2 * pair + 1], index);
            }
            // Combines the results of two registers, then four, then eight.
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

/// Table in memory, as long as a byte can address.
#[derive(Clone, Copy)]
pub(crate) struct InMemory(*const f32);

impl<S: Simd> Table<S> for InMemory {
    type Index = *const u8;

    #[inline(always)]
    unsafe fn at(x: *const f32) -> Self {
        Self(x)
    }

    #[inline(always)]
    unsafe fn index(from: *const u8) -> *const u8 {
        from
    }

    #[inline(always)]
    unsafe fn find(self, index: *const u8) -> S::F {
        // SAFETY: the caller guarantees every float at an index.
        unsafe { S::gather_bytes(self.0, index) }
    }
}

/// Size and cost of a look-up table.
pub(crate) struct Size {
    /// Number of floats that are read, or may be read, from the start of the block.
    pub(crate) floats: usize,
    /// Approximate cost of a look-up, in multiply-adds.
    pub(crate) work: usize,
}

/// Returns the smallest table for blocks of this length.
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
    // At least two tables must fit, so that tokens share the weights.
    if block > registers / 2 * lanes {
        return Size { floats: IN_MEMORY, work: 16 };
    }
    let floats = block.next_power_of_two().max(2 * lanes);
    // Each register costs one permutation or one blend.
    Size { floats, work: floats / lanes * 16 / lanes }
}
