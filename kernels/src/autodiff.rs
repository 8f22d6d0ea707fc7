//! Gradients of [`SparseOps`]: with respect to the input and to the kept values.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::FloatDType;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn_autodiff::{Autodiff, NodeId};

use crate::{Activation, SparseOps, Spec};

impl<B: Backend + SparseOps, C: CheckpointStrategy> SparseOps for Autodiff<B, C> {
    fn sparse_linear(
        x: FloatTensor<Self>,
        values: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        index: IntTensor<B>,
        offsets: IntTensor<B>,
        order: IntTensor<B>,
        spec: Spec,
    ) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct SparseLinear;

        impl<B: Backend + SparseOps> Backward<B, 3> for SparseLinear {
            #[allow(clippy::type_complexity)]
            type State =
                (NodeId, NodeId, FloatDType, IntTensor<B>, IntTensor<B>, IntTensor<B>, Spec);

            fn backward(
                self,
                ops: Ops<Self::State, 3>,
                grads: &mut Gradients,
                checkpointer: &mut Checkpointer,
            ) {
                let [x_parent, values_parent, bias_parent] = ops.parents;
                let (x, values, dtype, index, offsets, order, spec) = ops.state;
                let dy = grads.consume::<B>(&ops.node);
                if let Some(parent) = x_parent {
                    let values = checkpointer.retrieve_node_output(values);
                    let (i, off, ord) = (index.clone(), offsets.clone(), order.clone());
                    let dx = B::sparse_linear_dx(dy.clone(), values, i, off, ord, spec);
                    grads.register::<B>(parent.id, dx);
                }
                if let Some(parent) = values_parent {
                    let x = checkpointer.retrieve_node_output(x);
                    let dw = B::sparse_linear_dw(x, dy.clone(), index, offsets, order, spec);
                    // Of the type that the values are kept in.
                    grads.register::<B>(parent.id, B::float_cast(dw, dtype));
                }
                if let Some(parent) = bias_parent {
                    let summed = B::float_sum_dim(dy, 0);
                    let db = B::float_reshape(summed, [spec.rows].into());
                    grads.register::<B>(parent.id, db);
                }
            }
        }

        // A fused activation has no gradient here: `sparse_linear` only fuses it without autodiff.
        assert_eq!(spec.activation, Activation::None, "sparse_linear: index tensors with autodiff");
        let dtype = values.dtype().into();
        let parents = [x.node(), values.node(), bias.node()];
        match SparseLinear.prepare::<C>(parents).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let (i, off, ord) = (index.clone(), offsets.clone(), order.clone());
                let (x_node, values_node) = (prep.checkpoint(&x), prep.checkpoint(&values));
                let state = (x_node, values_node, dtype, i, off, ord, spec);
                let (x, values, bias) =
                    (x.into_primitive(), values.into_primitive(), bias.into_primitive());
                let y = B::sparse_linear(x, values, bias, index, offsets, order, spec);
                prep.finish(state, y)
            }
            OpsKind::UnTracked(prep) => {
                let (x, values, bias) =
                    (x.into_primitive(), values.into_primitive(), bias.into_primitive());
                prep.finish(B::sparse_linear(x, values, bias, index, offsets, order, spec))
            }
        }
    }

    fn sparse_linear_dx(
        _dy: FloatTensor<Self>,
        _values: FloatTensor<Self>,
        _index: IntTensor<B>,
        _offsets: IntTensor<B>,
        _order: IntTensor<B>,
        _spec: Spec,
    ) -> FloatTensor<Self> {
        // Only the backward pass above calls this, on the inner backend.
        unimplemented!("second-order gradients of sparse_linear")
    }

    fn sparse_linear_dw(
        _x: FloatTensor<Self>,
        _dy: FloatTensor<Self>,
        _index: IntTensor<B>,
        _offsets: IntTensor<B>,
        _order: IntTensor<B>,
        _spec: Spec,
    ) -> FloatTensor<Self> {
        // As above.
        unimplemented!("second-order gradients of sparse_linear")
    }

    fn masked(weight: FloatTensor<Self>, mask: IntTensor<B>) -> FloatTensor<Self> {
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
        let masked = B::masked(weight.into_primitive(), mask);
        match StraightThrough.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((), masked),
            OpsKind::UnTracked(prep) => prep.finish(masked),
        }
    }

    fn drawn(
        _grad: FloatTensor<Self>,
        _weight: FloatTensor<Self>,
        _mask: IntTensor<B>,
        _factor: f32,
    ) -> FloatTensor<Self> {
        // Gradients live on the inner backend; `functions::drawn` refuses others.
        unimplemented!("second-order gradients of masked")
    }
}
