use std::collections::BTreeMap;

use burn::module::{Module, Param, ParamId, Reparameterization, Reparameterizer};
use burn::tensor::{Device, FloatDType, IndexingUpdateOp, Int, Shape, Tensor};
use burn_sparse_kernels::{Checked, Choice, Layout, PackedTensors, select};
use burn_sparse_pattern::Pattern;
use burn_sparse_pattern::format::{FloatType, PackedEntry, View};

use super::memory::{Call, Memory};
use crate::train::ids;

/// A packed weight: the stored base holds only the kept values, the dense weight is gone.
///
/// [`nn`](crate::nn) layers hand the packed form to a kernel. Any other layer reads the weight as
/// usual and unpacks it each time; both can train the kept values.
#[derive(Module, Debug)]
pub struct Packed {
    index: Param<Tensor<1, Int>>,
    offsets: Param<Tensor<1, Int>>,
    order: Param<Tensor<1, Int>>,
    #[module(skip)]
    view: View,
    #[module(skip)]
    pattern: Pattern,
    #[module(skip)]
    layout: Layout,
    #[module(skip)]
    memory: Memory,
    #[module(skip)]
    checked: Checked,
}

impl Packed {
    /// How the dense weight would be seen as a matrix.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The pattern of the mask.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// The packed weight for kernels, its values in `base`.
    pub fn tensors<const D: usize>(&self, base: Tensor<D>) -> PackedTensors {
        let [slots, lanes] = [base.dims()[0], base.dims()[1]];
        PackedTensors {
            rows: self.view.rows(),
            cols: self.view.cols(),
            layout: self.layout,
            values: base.reshape([slots, lanes]),
            index: self.index.val(),
            offsets: self.offsets.val(),
            order: self.order.val(),
            checked: self.checked.clone(),
        }
    }

    /// Which kernel answers a call.
    pub(crate) fn choice(&self, base: &Tensor<2>, call: Call) -> Choice {
        self.choice_by(call, |call| {
            select(&self.tensors(base.clone()), call.tokens, call.dtype, &call.device)
        })
    }

    /// What `choose` says of a call, or has said of one like it.
    pub(crate) fn choice_by(&self, call: Call, choose: impl FnOnce(&Call) -> Choice) -> Choice {
        self.memory.choice(call, choose)
    }

    /// The dense weight, unpacked once.
    pub(crate) fn dense<const D: usize>(&self, base: Tensor<D>) -> Tensor<D> {
        self.memory.dense(base, |base| self.apply(base.clone()))
    }
}

impl Reparameterization for Packed {
    const NAME: &'static str = "packed";

    /// Unpacks to the shape that the layer stores.
    fn apply<const D: usize>(&self, base: Tensor<D>) -> Tensor<D> {
        let device = base.device();
        let tensors = self.tensors(base);
        let (mut from, mut to) = (Vec::new(), Vec::new());
        tensors.entries(|row, col, at| {
            from.push(at as u32);
            to.push(self.view.stored_index(row, col) as u32);
        });
        let values = tensors.values.clone();
        let values = values.clone().reshape([values.shape().num_elements()]);
        let kept = values.select(0, ids(from, &device));
        let dense = Tensor::<1>::zeros([self.view.rows() * self.view.cols()], &device);
        // Values of 16 bits are read by a CPU that computes in f32.
        let kept = kept.cast(dense.dtype());
        let dense = dense.select_assign(0, ids(to, &device), kept, IndexingUpdateOp::Add);
        dense.reshape(Shape::from(self.view.stored_shape()))
    }
}

/// Replaces dense weights by packed ones, by path.
pub struct PackInto {
    weights: BTreeMap<String, PackedEntry>,
}

impl PackInto {
    /// Takes the packed weight of every path.
    ///
    /// A CPU keeps two-byte values as such and widens them as it reads, which halves the bytes that a
    /// small batch waits for. GPUs hold values in the type they compute in, training devices in f32.
    pub fn new(weights: BTreeMap<String, PackedEntry>) -> Self {
        Self { weights }
    }
}

impl Reparameterizer for PackInto {
    type Reparam = Packed;

    fn reparameterize<const D: usize>(
        &mut self,
        path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<Packed>) {
        let Some(PackedEntry { view, pattern, packed, float, .. }) = self.weights.remove(path)
        else {
            return (param, None);
        };
        let device = param.lazy_device();
        let tensors = PackedTensors::from_packed(&packed, &device);
        let tensors = match float {
            FloatType::F16 if device == Device::flex() => tensors.cast(FloatDType::F16),
            FloatType::BF16 if device == Device::flex() => tensors.cast(FloatDType::BF16),
            _ => tensors,
        };
        let mut shape = [1; D];
        shape[..2].copy_from_slice(&tensors.values.dims());
        // A materialized weight is no leaf any more; on a training device the kept values are one.
        let base = Param::initialized(param.id, tensors.values.reshape(Shape::new(shape)))
            .set_require_grad(device.is_autodiff());
        let int = |tensor| Param::initialized(ParamId::new(), tensor);
        let packed = Packed {
            index: int(tensors.index),
            offsets: int(tensors.offsets),
            order: int(tensors.order),
            view,
            pattern,
            layout: tensors.layout,
            memory: Memory::default(),
            checked: tensors.checked,
        };
        (base, Some(packed))
    }
}
