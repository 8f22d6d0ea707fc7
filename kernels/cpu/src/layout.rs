/// Layout of the kept values of a `[rows, cols]` weight for kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Groups of rows that share columns: `values [columns, vector]`, `index [columns]` holds column ids, `offsets
    /// [groups + 1]` the start of each group's columns, `order [rows]` the row at every position.
    Grouped {
        /// Number of rows of a group.
        vector: usize,
    },
    /// Fixed counts per block, in tiles of 16 rows: `values [tiles · kept_per_row, 16]`, and `index` with the same shape
    /// holds in-block columns as bytes. `offsets` and `order` are unused.
    Balanced {
        /// Number of columns of a block, at most 256.
        block: usize,
        /// Number of kept weights of a full block.
        kept: usize,
    },
    /// Arbitrary rows, in tiles of 16 that keep nearly the same number of weights (sliced ELLPACK, Kreutzer et al. 2014):
    /// `values [slots, 16]`, `index` with the same shape holds column ids, `offsets [tiles + 1]` the first slot of each
    /// tile, `order [rows]` the row at every position. Rows shorter than the longest of their tile are padded with zeros at
    /// column `cols`.
    Rows,
}

impl Layout {
    /// Returns the number of values of a slot.
    pub fn lanes(self) -> usize {
        match self {
            Self::Grouped { vector } => vector,
            Self::Balanced { .. } | Self::Rows => TILE_ROWS,
        }
    }

    /// Returns the shape `[slots, lanes]` of this many stored values, including padding.
    pub fn values_shape(self, stored: usize) -> [usize; 2] {
        [stored / self.lanes(), self.lanes()]
    }

    /// Returns the name of the kernels of this layout, as in `flex-grouped-tiles-avx512`.
    pub fn family(self) -> &'static str {
        match self {
            Self::Grouped { .. } => "grouped",
            Self::Balanced { .. } => "balanced",
            Self::Rows => "unstructured",
        }
    }
}

/// Number of rows that a tile of [`Layout::Balanced`] and [`Layout::Rows`] interleaves: the lanes of one 512-bit vector.
pub const TILE_ROWS: usize = 16;

/// Shape of a packed weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PackedShape {
    /// Number of outputs.
    pub rows: usize,
    /// Size of the reduction.
    pub cols: usize,
    /// Layout of the kept values.
    pub layout: Layout,
    /// Number of stored values, including padding.
    pub stored: usize,
}

impl PackedShape {
    /// Describes a weight with this many stored values.
    pub const fn new(rows: usize, cols: usize, layout: Layout, stored: usize) -> Self {
        Self { rows, cols, layout, stored }
    }
}

/// Activation that kernels apply to `x · Wᵀ + b` before they store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Activation {
    /// Identity.
    #[default]
    None,
    /// `max(0, y)`.
    Relu,
    /// `y Φ(y)` with the normal distribution Φ: the exact GELU, not the tanh approximation.
    Gelu,
}
