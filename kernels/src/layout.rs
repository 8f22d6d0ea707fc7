use burn::tensor::Tensor;

/// How the kept values of a `[rows, cols]` weight are laid out for kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// `values [columns, vector]`, `index [columns]` the column ids, `offsets [groups + 1]` where the
    /// columns of each group begin, `order [rows]` the row at every place.
    Grouped {
        /// Rows of a group.
        vector: usize,
    },
    /// Tiles of 16 rows: `values [tiles · kept_per_row, 16]`, `index` of the same shape with in-block
    /// columns as bytes. `offsets` and `order` are unused.
    Balanced {
        /// Columns of a block, at most 256.
        block: usize,
        /// Kept weights of a full block.
        kept: usize,
    },
    /// `values [kept, 1]`, `index [kept]` the column ids, `offsets [rows + 1]`; `order` is unused.
    Rows,
}

impl Layout {
    /// The shape of the values beside an index of `index` elements.
    pub(crate) fn values_shape(self, index: usize) -> [usize; 2] {
        match self {
            Self::Grouped { vector } => [index, vector],
            Self::Balanced { .. } => [index / TILE_ROWS, TILE_ROWS],
            Self::Rows => [index, 1],
        }
    }
}

/// Rows that a [`Layout::Balanced`] tile interleaves: the lanes of one 512-bit vector.
pub(crate) const TILE_ROWS: usize = 16;

/// What is applied to `x · Wᵀ + b` while it is still in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Activation {
    /// Nothing.
    #[default]
    None,
    /// `max(0, y)`.
    Relu,
    /// `y Φ(y)`, Φ the normal distribution: the exact form, not the one with a hyperbolic tangent.
    Gelu,
}

impl Activation {
    /// Applies it as an operation of its own.
    pub fn apply<const D: usize>(self, y: Tensor<D>) -> Tensor<D> {
        match self {
            Self::None => y,
            Self::Relu => burn::tensor::activation::relu(y),
            Self::Gelu => burn::tensor::activation::gelu(y),
        }
    }
}
