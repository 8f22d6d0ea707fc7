/// Location of the inputs of a tile: one row of tokens per column of the weight.
pub(crate) trait Inputs: Copy {
    /// Returns the row of a column, for tiles of `width` tokens.
    ///
    /// # Safety
    /// The column must have a row.
    unsafe fn row(self, column: usize, width: usize) -> *const f32;
}

/// Rows packed one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Packed(pub(crate) *const f32);

impl Inputs for Packed {
    #[inline(always)]
    unsafe fn row(self, column: usize, width: usize) -> *const f32 {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.add(column * width) }
    }
}

/// Rows in the same memory, each starting at its own offset.
#[derive(Clone, Copy)]
pub(crate) struct Shifted<'a> {
    pub(crate) first: *const f32,
    /// Offset from `first` to the row of every column.
    pub(crate) offsets: &'a [u32],
}

impl Inputs for Shifted<'_> {
    #[inline(always)]
    unsafe fn row(self, column: usize, _width: usize) -> *const f32 {
        // SAFETY: guaranteed by the caller.
        unsafe { self.first.add(*self.offsets.get_unchecked(column) as usize) }
    }
}
