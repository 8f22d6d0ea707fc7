/// Where the inputs of a tile lie: a row of tokens for every column of the weight.
pub(crate) trait Inputs: Copy {
    /// The row of a column, for tiles of `width` tokens.
    ///
    /// # Safety
    /// There is one for this column.
    unsafe fn row(self, column: usize, width: usize) -> *const f32;
}

/// One after the other.
#[derive(Clone, Copy)]
pub(crate) struct Packed(pub(crate) *const f32);

impl Inputs for Packed {
    #[inline(always)]
    unsafe fn row(self, column: usize, width: usize) -> *const f32 {
        // SAFETY: passed on.
        unsafe { self.0.add(column * width) }
    }
}

/// In the same memory, each from a place of its own on.
#[derive(Clone, Copy)]
pub(crate) struct Shifted<'a> {
    pub(crate) first: *const f32,
    /// From `first` to the row of every column.
    pub(crate) offsets: &'a [u32],
}

impl Inputs for Shifted<'_> {
    #[inline(always)]
    unsafe fn row(self, column: usize, _width: usize) -> *const f32 {
        // SAFETY: passed on.
        unsafe { self.first.add(*self.offsets.get_unchecked(column) as usize) }
    }
}
