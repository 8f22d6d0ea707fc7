//! Gradients of [`SparseOps`] with respect to the input and to the kept values.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::FloatDType;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn_autodiff::{Autodiff, NodeId};

use super::SparseOps;
use crate::Activation;
use crate::packed::{PackedPrimitive, Spec};

/// State that the backward pass of a product needs.
#[derive(Debug, Clone)]
struct Saved<B: Backend> {
    x: NodeId,
    values: NodeId,
    dtype: FloatDType,
    index: IntTensor<B>,
    offsets: IntTensor<B>,
    order: IntTensor<B>,
    spec: Spec,
}

impl<B: Backend> Saved<B> {
    fn weight(&self, checkpointer: &mut Checkpointer) -> PackedPrimitive<B> {
        PackedPrimitive {
            values: checkpointer.retrieve_node_output(self.values),
            index: self.index.clone(),
            offsets: self.offsets.clone(),
            order: self.order.clone(),
        }
    }
}

#[derive(Debug)]
struct SparseLinear;

impl<B: Backend + SparseOps> Backward<B, 3> for SparseLinear {
    type State = Saved<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let [x_parent, values_parent, bias_parent] = ops.parents;
        let saved = ops.state;
        let dy = grads.consume::<B>(&ops.node);
        if x_parent.is_some() || values_parent.is_some() {
            // A saved tensor can be taken only once.
            let weight = saved.weight(checkpointer);
            if let Some(parent) = x_parent {
                let dx = B::sparse_linear_dx(dy.clone(), weight.clone(), saved.spec);
                grads.register::<B>(parent.id, dx);
            }
            if let Some(parent) = values_parent {
                let x = checkpointer.retrieve_node_output(saved.x);
                let dw = B::sparse_linear_dw(x, dy.clone(), weight, saved.spec);
                // Values may be stored in another type than activations.
                grads.register::<B>(parent.id, B::float_cast(dw, saved.dtype));
            }
        }
        if let Some(parent) = bias_parent {
            let summed = B::float_sum_dim(dy, 0);
            let db = B::float_reshape(summed, [saved.spec.shape.rows].into());
            grads.register::<B>(parent.id, db);
        }
    }
}

impl<B: Backend + SparseOps, C: CheckpointStrategy> SparseOps for Autodiff<B, C> {
    fn sparse_linear(
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        weight: PackedPrimitive<Self>,
        spec: Spec,
    ) -> FloatTensor<Self> {
        // A fused activation has no gradient here: `linear::run` only fuses it without autodiff.
        assert_eq!(
            spec.activation,
            Activation::None,
            "sparse_linear: fused activation with autodiff"
        );
        let PackedPrimitive { values, index, offsets, order } = weight;
        let dtype = values.dtype().into();
        let inner = |values| {
            let (index, offsets, order) = (index.clone(), offsets.clone(), order.clone());
            PackedPrimitive::<B> { values, index, offsets, order }
        };
        let parents = [x.node(), values.node(), bias.node()];
        match SparseLinear.prepare::<C>(parents).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let (x_node, values_node) = (prep.checkpoint(&x), prep.checkpoint(&values));
                let weight = inner(values.into_primitive());
                let y = B::sparse_linear(x.into_primitive(), bias.into_primitive(), weight, spec);
                // The forward pass has checked the indices, which the backward pass reads again.
                let spec = Spec { checked: true, ..spec };
                let saved =
                    Saved { x: x_node, values: values_node, dtype, index, offsets, order, spec };
                prep.finish(saved, y)
            }
            OpsKind::UnTracked(prep) => {
                let weight = inner(values.into_primitive());
                prep.finish(B::sparse_linear(
                    x.into_primitive(),
                    bias.into_primitive(),
                    weight,
                    spec,
                ))
            }
        }
    }

    fn sparse_linear_dx(
        _dy: FloatTensor<Self>,
        _weight: PackedPrimitive<Self>,
        _spec: Spec,
    ) -> FloatTensor<Self> {
        // Only the backward pass calls this, on the inner backend.
        unimplemented!("second-order gradients of sparse_linear")
    }

    fn sparse_linear_dw(
        _x: FloatTensor<Self>,
        _dy: FloatTensor<Self>,
        _weight: PackedPrimitive<Self>,
        _spec: Spec,
    ) -> FloatTensor<Self> {
        // As above.
        unimplemented!("second-order gradients of sparse_linear")
    }

    fn apply_mask(weight: FloatTensor<Self>, mask: IntTensor<B>) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct StraightThrough;

        impl<B: Backend + SparseOps> Backward<B, 1> for StraightThrough {
            type State = ();

            fn backward(
                self,
                ops: Ops<Self::State, 1>,
                grads: &mut Gradients,
                _checkpointer: &mut Checkpointer,
            ) {
                unary::<B, _>(ops.parents, ops.node, grads, |grad| grad);
            }
        }

        let node = weight.node();
        let masked = B::apply_mask(weight.into_primitive(), mask);
        match StraightThrough.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((), masked),
            OpsKind::UnTracked(prep) => prep.finish(masked),
        }
    }

    fn decay_dropped(
        _grad: FloatTensor<Self>,
        _weight: FloatTensor<Self>,
        _mask: IntTensor<B>,
        _factor: f32,
    ) -> FloatTensor<Self> {
        // Gradients are on the inner backend; `mask::decay_dropped` rejects others.
        unimplemented!("second-order gradients of decay_dropped")
    }
}
