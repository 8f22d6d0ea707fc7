use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::tensor::{DType, Shape};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::{empty_device_contiguous_dtype, zeros_client};
use burn_sparse_cube::balanced::{self, Balanced, TILE_ROWS};
use burn_sparse_cube::entries::{self, Family};
use burn_sparse_cube::grouped::{self, Grouped};
use burn_sparse_cube::tensor_core::{self, Engine};
use burn_sparse_cube::{Buffer, Call, Operands, Store, masked};
use cubecl::prelude::*;

use super::Kernel;
use super::activations::{Activations, buffer, empty};
use crate::kernel_name::OnDevice;
use crate::{Activation, Layout, SparseOps, Spec};

impl SparseOps for CubeBackend {
    fn sparse_linear(
        x: FloatTensor<Self>,
        values: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        index: IntTensor<Self>,
        offsets: IntTensor<Self>,
        order: IntTensor<Self>,
        spec: Spec,
    ) -> FloatTensor<Self> {
        let n = x.shape()[0];
        if n == 0 {
            return empty(&x, [n, spec.rows]);
        }
        let (client, dtype) = (x.client.clone(), element(x.dtype));
        let store = Store {
            bias: bias.meta.shape().num_elements() > 0,
            activation: match spec.activation {
                Activation::None => burn_sparse_cube::Activation::None,
                Activation::Relu => burn_sparse_cube::Activation::Relu,
                Activation::Gelu => burn_sparse_cube::Activation::Gelu,
            },
        };
        let unmeasured = || {
            Kernel::unmeasured(&spec, n, x.dtype, &x.device)
                .unwrap_or_else(|reason| panic!("sparse_linear: {reason}"))
        };
        let kernel = spec.kernel.and_then(OnDevice::cube).unwrap_or_else(unmeasured);
        let family = family(&spec, values.meta.shape()[0]);
        let turned = kernel.is_features_major();
        let y = match turned && spec.features_major {
            true => Activations::features_major(&x, spec.rows),
            false => Activations::tokens_major(empty(&x, [n, spec.rows])),
        };
        let x = match turned {
            true => Activations::as_it_lies(x),
            false => Activations::tokens_major(x),
        };
        let operands = Operands {
            x: x.buffer,
            values: buffer(values),
            index: buffer(index),
            offsets: buffer(offsets),
            order: buffer(order),
            bias: buffer(bias),
        };
        let call = Call {
            client: &client,
            dtype,
            operands: &operands,
            y: &y.buffer,
            tokens: n,
            x_major: x.major,
            y_major: y.major,
            store,
        };
        match (kernel, family) {
            (Kernel::TensorCore(kernel), Family::Grouped(weight)) => {
                tensor_core::forward(&call, weight, kernel, Engine::Ptx, None);
            }
            (Kernel::Grouped(kernel), Family::Grouped(weight)) => {
                grouped::forward(&call, weight, kernel, None);
            }
            (Kernel::Balanced(kernel), Family::Balanced(weight)) => {
                balanced::forward(&call, weight, kernel, None);
            }
            (kernel, family) => panic!("sparse_linear: {kernel:?} for a weight of {family:?}"),
        }
        y.tensor
    }

    fn sparse_linear_dx(
        dy: FloatTensor<Self>,
        values: FloatTensor<Self>,
        index: IntTensor<Self>,
        offsets: IntTensor<Self>,
        order: IntTensor<Self>,
        spec: Spec,
    ) -> FloatTensor<Self> {
        // Its reduction runs over rows, along which no pattern here is regular: the dense product of
        // the unpacked weight is what a GPU does best.
        let shape = Shape::new([spec.rows, spec.cols]);
        let dense = zeros_client(dy.client.clone(), dy.device.clone(), shape, dy.dtype);
        let dense = into_contiguous(dense);
        let family = family(&spec, values.meta.shape()[0]);
        let (client, dtype) = (dy.client.clone(), element(dy.dtype));
        let none = Buffer::empty(&client, 0, 4);
        let operands = Operands {
            x: none.clone(),
            values: buffer(values),
            index: buffer(index),
            offsets: buffer(offsets),
            order: buffer(order),
            bias: none,
        };
        entries::scatter(&client, dtype, family, &operands, &buffer(dense.clone()));
        Self::float_matmul(dy, dense)
    }

    fn sparse_linear_dw(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        index: IntTensor<Self>,
        offsets: IntTensor<Self>,
        order: IntTensor<Self>,
        spec: Spec,
    ) -> FloatTensor<Self> {
        // As for `dx`: the dense product, of which the kept entries are read.
        let dense = into_contiguous(Self::float_matmul(Self::float_transpose(dy), x));
        let shape = spec.layout.values_shape(index.meta.shape().num_elements());
        let dvalues = empty(&dense, shape);
        let family = family(&spec, shape[0]);
        let (client, dtype) = (dense.client.clone(), element(dense.dtype));
        let none = Buffer::empty(&client, 0, 4);
        let operands = Operands {
            x: none.clone(),
            values: none.clone(),
            index: buffer(index),
            offsets: buffer(offsets),
            order: buffer(order),
            bias: none,
        };
        let out = buffer(dvalues.clone());
        entries::gather(&client, dtype, family, &operands, &buffer(dense), &out);
        dvalues
    }

    fn masked(weight: FloatTensor<Self>, mask: IntTensor<Self>) -> FloatTensor<Self> {
        let weight = into_contiguous(weight);
        let out = empty_device_contiguous_dtype(
            weight.client.clone(),
            weight.device.clone(),
            weight.meta.shape().clone(),
            weight.dtype,
        );
        let (client, dtype) = (weight.client.clone(), element(weight.dtype));
        masked::masked(&client, dtype, &buffer(weight), &buffer(mask), &buffer(out.clone()));
        out
    }

    fn drawn(
        grad: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        mask: IntTensor<Self>,
        factor: f32,
    ) -> FloatTensor<Self> {
        // Once a step, beside a forward and a backward pass: not worth a kernel of its own.
        let dropped = Self::float_sub(weight.clone(), Self::masked(weight, mask));
        Self::float_add(grad, Self::float_mul_scalar(dropped, factor.into()))
    }
}

/// The shape the kernels know of a weight whose values have `lines` lines.
fn family(spec: &Spec, lines: usize) -> Family {
    let Spec { rows, cols, layout, .. } = *spec;
    match layout {
        Layout::Grouped { vector } => Family::Grouped(Grouped { rows, cols, vector }),
        Layout::Rows => Family::Grouped(Grouped { rows, cols, vector: 1 }),
        Layout::Balanced { block, kept } => {
            let per_row = lines / rows.div_ceil(TILE_ROWS);
            Family::Balanced(Balanced { rows, cols, block, kept, per_row })
        }
    }
}

/// `functions` has refused every other type before dispatch.
fn element(dtype: DType) -> ElemType {
    burn::backend::cubecl::dtype_to_elem_type(dtype)
}
