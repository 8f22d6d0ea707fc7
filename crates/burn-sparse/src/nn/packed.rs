use std::collections::BTreeMap;

use burn::module::{Module, Param, ParamId, Reparameterization, Reparameterizer};
use burn::tensor::{IndexingUpdateOp, Int, Shape, Tensor};
use burn_sparse_kernels::{Layout, PackedTensors};
use burn_sparse_pattern::format::View;
use burn_sparse_pattern::{Packed as PackedMatrix, Pattern};

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
        }
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
        let dense = dense.select_assign(0, ids(to, &device), kept, IndexingUpdateOp::Add);
        dense.reshape(Shape::from(self.view.stored_shape()))
    }
}

/// Replaces dense weights by packed ones, by path.
pub struct PackInto {
    weights: BTreeMap<String, (View, Pattern, PackedMatrix)>,
}

impl PackInto {
    /// Takes the packed matrix of every path.
    pub fn new(weights: BTreeMap<String, (View, Pattern, PackedMatrix)>) -> Self {
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
        let Some((view, pattern, packed)) = self.weights.remove(path) else { return (param, None) };
        let tensors = PackedTensors::from_packed(&packed, &param.lazy_device());
        let mut shape = [1; D];
        shape[..2].copy_from_slice(&tensors.values.dims());
        // A materialized weight is no leaf any more; on a training device the kept values are one.
        let base = Param::initialized(param.id, tensors.values.reshape(Shape::new(shape)))
            .set_require_grad(param.lazy_device().is_autodiff());
        let int = |tensor| Param::initialized(ParamId::new(), tensor);
        let packed = Packed {
            index: int(tensors.index),
            offsets: int(tensors.offsets),
            order: int(tensors.order),
            view,
            pattern,
            layout: tensors.layout,
        };
        (base, Some(packed))
    }
}
