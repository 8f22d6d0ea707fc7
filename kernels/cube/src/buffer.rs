use cubecl::prelude::*;
use cubecl::server::Handle;

use crate::Store;

/// A buffer on a device and the elements it holds.
#[derive(Debug, Clone)]
pub struct Buffer {
    /// The memory.
    pub handle: Handle,
    /// Elements, of whatever type the kernel reads.
    pub len: usize,
}

impl Buffer {
    /// A new buffer of `len` elements of `bytes` bytes each; what it holds is undefined.
    pub fn empty(client: &Client, len: usize, bytes: usize) -> Self {
        Self { handle: client.empty((len * bytes).max(bytes)), len }
    }

    /// A new buffer with these elements.
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

    /// The same memory, read as words of `per_word` elements each.
    pub(crate) fn words(&self, per_word: usize) -> BufferArg {
        // SAFETY: as above; the memory of a device is allocated in larger units than a word.
        unsafe {
            BufferArg::from_raw_parts(self.handle.clone(), self.len.div_ceil(per_word).max(1))
        }
    }
}

/// Whether a matrix of activations lies token after token or feature after feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Major {
    /// `[tokens, features]`.
    Tokens,
    /// `[features][pitch]`, see [`pitch`](crate::transpose::pitch).
    Features,
}

/// What every kernel of a packed weight is given. An absent buffer is one of no elements.
#[derive(Debug, Clone)]
pub struct Operands {
    /// Activations of `cols` features, as [`Call::x_major`] says.
    pub x: Buffer,
    /// The kept values, in the layout of the kernel's family.
    pub values: Buffer,
    /// Column ids as `u32`, or in-block columns as bytes.
    pub index: Buffer,
    /// Where groups begin.
    pub offsets: Buffer,
    /// The row at every place.
    pub order: Buffer,
    /// `[rows]`, or no elements.
    pub bias: Buffer,
}

/// One forward pass.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Where it runs.
    pub client: &'a Client,
    /// The type of activations, values and results.
    pub dtype: ElemType,
    /// What goes in.
    pub operands: &'a Operands,
    /// Activations of `rows` features, as [`y_major`](Self::y_major) says.
    pub y: &'a Buffer,
    /// Tokens.
    pub tokens: usize,
    /// How `x` lies.
    pub x_major: Major,
    /// How `y` is to lie.
    pub y_major: Major,
    /// What is applied in the store.
    pub store: Store,
}

impl Call<'_> {
    pub(crate) fn ordered(&self) -> bool {
        self.operands.order.len > 0
    }
}
