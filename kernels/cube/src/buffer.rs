use cubecl::prelude::*;
use cubecl::server::Handle;

use crate::Store;

/// Buffer on a device, with its number of elements.
#[derive(Debug, Clone)]
pub struct Buffer {
    /// Handle of the memory.
    pub handle: Handle,
    /// Number of elements, of the type that the kernel reads.
    pub len: usize,
}

impl Buffer {
    /// Allocates a buffer of `len` elements of `bytes` bytes each, with undefined contents.
    pub fn empty(client: &Client, len: usize, bytes: usize) -> Self {
        Self { handle: client.empty((len * bytes).max(bytes)), len }
    }

    /// Creates a buffer with the given elements.
    pub fn of<E: CubeElement>(client: &Client, elements: &[E]) -> Self {
        if elements.is_empty() {
            return Self { handle: client.empty(size_of::<E>()), len: 0 };
        }
        let handle = client.create_from_slice(E::as_bytes(elements));
        Self { handle, len: elements.len() }
    }

    pub(crate) fn arg(&self) -> BufferArg {
        // SAFETY: the memory holds `len` elements; kernels clamp or guard every index.
        unsafe { BufferArg::from_raw_parts(self.handle.clone(), self.len.max(1)) }
    }

    /// Returns the same memory as an argument of words of `per_word` elements each.
    pub(crate) fn words(&self, per_word: usize) -> BufferArg {
        // SAFETY: as above; device memory is allocated in units larger than a word.
        unsafe {
            BufferArg::from_raw_parts(self.handle.clone(), self.len.div_ceil(per_word).max(1))
        }
    }
}

/// Layout of a matrix of activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Major {
    /// Token-major: `[tokens, features]`.
    Tokens,
    /// Feature-major: `[features][pitch]`, see [`pitch`](crate::transpose::pitch).
    Features,
}

/// Operands of every kernel of a packed weight. An absent buffer has no elements.
#[derive(Debug, Clone)]
pub struct Operands {
    /// Activations of `cols` features, in the layout given by [`Call::x_major`].
    pub x: Buffer,
    /// Kept values, in the layout of the kernel's family.
    pub values: Buffer,
    /// Column ids as `u32`, or in-block columns as bytes.
    pub index: Buffer,
    /// Offsets at which the groups begin.
    pub offsets: Buffer,
    /// Row order: the row at every place.
    pub order: Buffer,
    /// Bias `[rows]`, or no elements.
    pub bias: Buffer,
}

/// One forward pass.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Client of the device that runs it.
    pub client: &'a Client,
    /// Dtype of activations, values and results.
    pub dtype: ElemType,
    /// Input operands.
    pub operands: &'a Operands,
    /// Output activations of `rows` features, in the layout given by [`y_major`](Self::y_major).
    pub y: &'a Buffer,
    /// Number of tokens.
    pub tokens: usize,
    /// Layout of `x`.
    pub x_major: Major,
    /// Layout of `y`.
    pub y_major: Major,
    /// Operations applied when a result is stored.
    pub store: Store,
}

impl Call<'_> {
    pub(crate) fn ordered(&self) -> bool {
        self.operands.order.len > 0
    }
}
