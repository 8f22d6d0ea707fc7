/// Location of the rows of a tile: the tokens of one feature each.
pub(crate) trait TileRows: Copy {
    /// Returns the row of a feature, for tiles of `width` tokens.
    ///
    /// # Safety
    /// The feature must have a row.
    unsafe fn row(self, feature: usize, width: usize) -> *const f32;
}

/// Rows packed one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Packed(pub(crate) *const f32);

impl TileRows for Packed {
    #[inline(always)]
    unsafe fn row(self, feature: usize, width: usize) -> *const f32 {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.add(feature * width) }
    }
}

/// Rows at a fixed distance, of which the tile is a part.
#[derive(Clone, Copy)]
pub(crate) struct Strided {
    pub(crate) first: *const f32,
    /// Floats from one row to the next.
    pub(crate) stride: usize,
}

impl TileRows for Strided {
    #[inline(always)]
    unsafe fn row(self, feature: usize, _width: usize) -> *const f32 {
        // SAFETY: guaranteed by the caller.
        unsafe { self.first.add(feature * self.stride) }
    }
}

/// Rows in the same memory, each starting at its own offset.
#[derive(Clone, Copy)]
pub(crate) struct Shifted<'a> {
    pub(crate) first: *const f32,
    /// Offset from `first` to the row of every feature.
    pub(crate) offsets: &'a [u32],
}

impl TileRows for Shifted<'_> {
    #[inline(always)]
    unsafe fn row(self, feature: usize, _width: usize) -> *const f32 {
        // SAFETY: guaranteed by the caller.
        unsafe { self.first.add(*self.offsets.get_unchecked(feature) as usize) }
    }
}
