use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{DType, Int, Tensor};
use burn_flex::FlexTensor;
use half::{bf16, f16};

use crate::flex_tensor::{flex_ints, flex_tensor};

/// Identity of a tensor on the CPU: its memory, which it keeps alive. Two tensors with equal addresses have equal
/// elements, since memory that is shared is never written to.
#[derive(Debug, Clone)]
pub struct Address(FlexTensor);

impl Address {
    /// Returns the address of floats, or `None` if the tensor is not contiguous in the memory of the CPU.
    pub fn of<const D: usize>(tensor: &Tensor<D>) -> Option<Self> {
        Self::new(flex_tensor(tensor)?)
    }

    /// Returns the address of integers, or `None` if the tensor is not contiguous in the memory of the CPU.
    pub fn of_ints<const D: usize>(tensor: &Tensor<D, Int>) -> Option<Self> {
        Self::new(flex_ints(tensor)?)
    }

    fn new(tensor: FlexTensor) -> Option<Self> {
        location(&tensor)?;
        Some(Self(tensor))
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        location(&self.0) == location(&other.0)
    }
}

/// Returns the first byte, length, and type of contiguous elements.
fn location(tensor: &FlexTensor) -> Option<(usize, usize, DType)> {
    fn ends<E>(elements: &[E]) -> (usize, usize) {
        (elements.as_ptr().addr(), elements.len())
    }
    let dtype = tensor.dtype();
    let (first, len) = match dtype {
        DType::F32 => ends(tensor.as_slice::<f32>()?),
        DType::BF16 => ends(tensor.as_slice::<bf16>()?),
        DType::F16 => ends(tensor.as_slice::<f16>()?),
        DType::I32 => ends(tensor.as_slice::<i32>()?),
        DType::U8 => ends(tensor.as_slice::<u8>()?),
        _ => return None,
    };
    Some((first, len, dtype))
}

/// Value, and the tensors that it was computed from.
type Entry<T> = Option<(Box<[Address]>, T)>;

/// Cache of the last value computed from some tensors, valid for as long as these tensors stay the same. Clones share
/// the cache.
#[derive(Debug)]
pub struct Memo<T>(Arc<Mutex<Entry<T>>>);

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Memo<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone> Memo<T> {
    /// Returns the cached value, if it was computed from the tensors at these addresses.
    pub(crate) fn get(&self, addresses: &[Address]) -> Option<T> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.as_ref().filter(|(of, _)| **of == *addresses).map(|(_, value)| value.clone())
    }

    /// Returns the cached value, if it was computed from these tensors.
    pub(crate) fn get_for(&self, tensors: &[&FlexTensor]) -> Option<T> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, value) = cached.as_ref()?;
        let same = |(of, tensor): (&Address, &&FlexTensor)| location(&of.0) == location(tensor);
        (of.len() == tensors.len() && of.iter().zip(tensors).all(same)).then(|| value.clone())
    }

    /// Returns the cached value, or computes and caches it, as [`Self::get_or`] does for one tensor; looking it up is faster.
    pub fn get_or_of<const D: usize>(&self, tensor: &Tensor<D>, compute: impl FnOnce() -> T) -> T {
        let Some(tensor) = flex_tensor(tensor) else { return compute() };
        if let Some(value) = self.get_for(&[&tensor]) {
            return value;
        }
        let value = compute();
        if let Some(address) = Address::new(tensor) {
            self.set([address], value.clone());
        }
        value
    }

    /// Caches a value, and keeps the tensors that it was computed from.
    pub(crate) fn set(&self, addresses: impl Into<Box<[Address]>>, value: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((addresses.into(), value));
    }

    /// Returns the cached value, or computes and caches it. Without addresses, nothing is cached.
    ///
    /// `compute` runs without the lock: it may use several threads, and a waiting thread may be given other work, such as
    /// another call with the same tensors.
    pub fn get_or<A>(&self, addresses: Option<A>, compute: impl FnOnce() -> T) -> T
    where
        A: AsRef<[Address]> + Into<Box<[Address]>>,
    {
        let Some(addresses) = addresses else { return compute() };
        if let Some(value) = self.get(addresses.as_ref()) {
            return value;
        }
        let value = compute();
        self.set(addresses, value.clone());
        value
    }
}
