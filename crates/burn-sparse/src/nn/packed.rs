use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use burn::module::{Module, Param, ParamId, Reparameterization, Reparameterizer};
use burn::tensor::{Device, FloatDType, IndexingUpdateOp, Int, Shape, Tensor};
use burn_sparse_kernels::{Checked, Choice, Layout, Memo, PackedTensors, select};
use burn_sparse_pattern::Pattern;
use burn_sparse_pattern::format::{FloatType, PackedEntry, View};

use super::choices::{Call, LastChoice};
use crate::params::ids;

/// Packed weight of a layer: the parameter holds only the kept values.
///
/// Layers of [`nn`](crate::nn) pass the packed form to a sparse kernel. Other layers read the weight as usual, and unpack
/// it on every read. Both can train the kept values.
///
/// A record of a packed model has neither patterns nor layouts: it fits a model that was packed from the same masks. To exchange
/// packed models, use a [`Checkpoint`](crate::checkpoint::Checkpoint).
#[derive(Module, Debug)]
pub struct PackedParam {
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
    choice: LastChoice,
    #[module(skip)]
    assembled: Memo<Arc<PackedTensors>>,
    #[module(skip)]
    unpacked: Unpacked,
    #[module(skip)]
    checked: Checked,
}

impl PackedParam {
    /// Returns the matrix view of the dense weight.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the pattern of the mask.
    pub fn pattern(&self) -> Pattern {
        self.pattern
    }

    /// Returns the packed weight for kernels with its values in `base`, assembled only once while they stay the same: indices
    /// never change without them.
    pub(super) fn tensors<const D: usize>(&self, base: &Tensor<D>) -> Arc<PackedTensors> {
        self.assembled.get_or_of(base, || {
            let index = [self.index.val(), self.offsets.val(), self.order.val()];
            let shape = (self.view.rows(), self.view.cols());
            let (values, checked) = (base.clone(), self.checked.clone());
            Arc::new(PackedTensors::from_parts(shape, self.layout, values, index, checked))
        })
    }

    /// Returns the kernel for a call.
    pub(super) fn choice(&self, base: &Tensor<2>, call: Call) -> Choice {
        self.choice_by(call, |call| {
            select(&self.tensors(base), call.tokens, call.dtype, &call.device)
        })
    }

    /// Returns the kernel for a call, chosen by `choose` unless the last call was equal.
    pub(super) fn choice_by(&self, call: Call, choose: impl FnOnce(&Call) -> Choice) -> Choice {
        self.choice.get_or(call, choose)
    }

    /// Returns the dense weight, unpacked only once while its values stay the same.
    pub(super) fn dense<const D: usize>(&self, base: &Tensor<D>) -> Tensor<D> {
        self.unpacked.get_or(base, || self.apply(base.clone()))
    }
}

/// Cache of an unpacked weight of any rank.
#[derive(Debug, Clone, Default)]
pub(super) struct Unpacked(Memo<Arc<dyn Any + Send + Sync>>);

impl Unpacked {
    /// Returns the result of `unpack`, computed only once while the values that it reads stay the same.
    pub(super) fn get_or<const D: usize, const E: usize>(
        &self,
        values: &Tensor<D>,
        unpack: impl FnOnce() -> Tensor<E>,
    ) -> Tensor<E> {
        let unpacked = self.0.get_or_of(values, || Arc::new(unpack()));
        unpacked.downcast_ref::<Tensor<E>>().expect("a weight has one rank").clone()
    }
}

impl Reparameterization for PackedParam {
    const NAME: &'static str = "packed";

    /// Unpacks to the shape that the layer stores.
    fn apply<const D: usize>(&self, base: Tensor<D>) -> Tensor<D> {
        let device = base.device();
        let tensors = self.tensors(&base);
        let (mut from, mut to) = (Vec::new(), Vec::new());
        tensors.entries(|row, col, at| {
            from.push(at as u32);
            to.push(self.view.stored_index(row, col) as u32);
        });
        let values = tensors.values().clone();
        let values = values.clone().reshape([values.shape().num_elements()]);
        let kept = values.select(0, ids(from, &device));
        let dense = Tensor::<1>::zeros([self.view.rows() * self.view.cols()], &device);
        // The CPU computes in f32 even if it stores 16-bit values.
        let kept = kept.cast(dense.dtype());
        let dense = dense.select_assign(0, ids(to, &device), kept, IndexingUpdateOp::Add);
        dense.reshape(Shape::from(self.view.stored_shape()))
    }
}

/// Replaces dense weights with packed ones, by path.
pub(crate) struct PackInto {
    weights: BTreeMap<String, PackedEntry>,
}

impl PackInto {
    /// Packs these weights.
    ///
    /// The CPU stores 16-bit values as such and widens them on read, which halves the memory traffic of small batches.
    /// GPUs store values in the type they compute in, training devices in f32.
    pub(crate) fn new(weights: BTreeMap<String, PackedEntry>) -> Self {
        Self { weights }
    }
}

impl Reparameterizer for PackInto {
    type Reparam = PackedParam;

    fn reparameterize<const D: usize>(
        &mut self,
        path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<PackedParam>) {
        let Some(PackedEntry { view, pattern, packed, float, .. }) = self.weights.remove(path)
        else {
            return (param, None);
        };
        let device = param.lazy_device();
        let tensors = PackedTensors::from_packed(&packed, &device);
        // A device is equal to the one of its autodiff.
        let narrows = device == Device::flex() && !device.is_autodiff();
        let tensors = match float {
            FloatType::F16 if narrows => tensors.cast(FloatDType::F16),
            FloatType::BF16 if narrows => tensors.cast(FloatDType::BF16),
            _ => tensors,
        };
        let (layout, values, [index, offsets, order], checked) = tensors.into_parts();
        let mut shape = [1; D];
        shape[..2].copy_from_slice(&values.dims());
        // A materialized weight is not a leaf anymore; on a training device the kept values are one.
        let (id, trained) = (param.id, is_trained(param, &device));
        let base = Param::initialized(id, values.reshape(Shape::new(shape)));
        let base = base.set_require_grad(trained);
        let int = |tensor| Param::initialized(ParamId::new(), tensor);
        let packed = PackedParam {
            index: int(index),
            offsets: int(offsets),
            order: int(order),
            view,
            pattern,
            layout,
            choice: LastChoice::default(),
            assembled: Memo::default(),
            unpacked: Unpacked::default(),
            checked,
        };
        (base, Some(packed))
    }
}

/// Returns `true` if a parameter is trained, or will be on a training device, without initializing it.
fn is_trained<const D: usize>(param: Param<Tensor<D>>, device: &Device) -> bool {
    let id = param.id;
    let probe = param.transform_for_load(Tensor::zeros([1; D], device), id);
    if device.is_autodiff() { probe.is_require_grad() } else { probe.train().is_require_grad() }
}
