use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::tensor::{DType, Shape};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::{empty_device_contiguous_dtype, zeros_client};
use burn_sparse_cube::entries::{self, Family};
use burn_sparse_cube::grouped::{self, Grouped};
use burn_sparse_cube::tensor_core::{self, Engine};
use burn_sparse_cube::tiled::{self, Slots, TILE_ROWS, Tiled};
use burn_sparse_cube::{Buffer, Call, Operands, Store, masked};
use cubecl::prelude::*;

use super::SparseOps;
use super::activations::{Activations, buffer, empty};
use crate::gpu::GpuKernel;
use crate::kernel_name::OnDevice;
use crate::packed::{PackedPrimitive, Spec};
use crate::{Activation, Layout, PackedShape};

impl SparseOps for CubeBackend {
    fn sparse_linear(
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        weight: PackedPrimitive<Self>,
        spec: Spec,
    ) -> FloatTensor<Self> {
        let n = x.shape()[0];
        if n == 0 {
            return empty(&x, [n, spec.shape.rows]);
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
            GpuKernel::unmeasured(&spec.shape, n, x.dtype, &x.device)
                .unwrap_or_else(|reason| panic!("sparse_linear: {reason}"))
        };
        let kernel = spec.kernel.and_then(OnDevice::gpu).unwrap_or_else(unmeasured);
        let family = family(&spec.shape);
        let turned = kernel.is_features_major();
        let y = match turned && spec.features_major {
            true => Activations::features_major(&x, spec.shape.rows),
            false => Activations::tokens_major(empty(&x, [n, spec.shape.rows])),
        };
        let x = match turned {
            true => Activations::as_it_lies(x),
            false => Activations::tokens_major(x),
        };
        let operands = Operands {
            x: x.buffer,
            values: buffer(weight.values),
            index: buffer(weight.index),
            offsets: buffer(weight.offsets),
            order: buffer(weight.order),
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
            (GpuKernel::TensorCore(kernel), Family::Grouped(weight)) => {
                tensor_core::forward(&call, weight, kernel, Engine::Ptx, None);
            }
            (GpuKernel::Grouped(kernel), Family::Grouped(weight)) => {
                grouped::forward(&call, weight, kernel, None);
            }
            (GpuKernel::Tiled(kernel), Family::Tiled(weight)) => {
                tiled::forward(&call, weight, kernel, None);
            }
            (kernel, family) => panic!("sparse_linear: {kernel:?} for a weight of {family:?}"),
        }
        y.tensor
    }

    fn sparse_linear_dx(
        dy: FloatTensor<Self>,
        weight: PackedPrimitive<Self>,
        spec: Spec,
    ) -> FloatTensor<Self> {
        // The reduction runs over rows, along which no pattern is regular: a GPU is fastest with the dense product of the
        // unpacked weight.
        let shape = Shape::new([spec.shape.rows, spec.shape.cols]);
        let dense = zeros_client(dy.client.clone(), dy.device.clone(), shape, dy.dtype);
        let dense = into_contiguous(dense);
        let family = family(&spec.shape);
        let (client, dtype) = (dy.client.clone(), element(dy.dtype));
        let none = Buffer::empty(&client, 0, 4);
        let operands = Operands {
            x: none.clone(),
            values: buffer(weight.values),
            index: buffer(weight.index),
            offsets: buffer(weight.offsets),
            order: buffer(weight.order),
            bias: none,
        };
        entries::scatter(&client, dtype, family, &operands, &buffer(dense.clone()));
        Self::float_matmul(dy, dense)
    }

    fn sparse_linear_dw(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        weight: PackedPrimitive<Self>,
        spec: Spec,
    ) -> FloatTensor<Self> {
        // As for `dx`: the dense product, from which the kept entries are gathered.
        let dense = into_contiguous(Self::float_matmul(Self::float_transpose(dy), x));
        let shape = spec.shape.layout.values_shape(spec.shape.stored);
        let dvalues = empty(&dense, shape);
        let family = family(&spec.shape);
        let (client, dtype) = (dense.client.clone(), element(dense.dtype));
        let none = Buffer::empty(&client, 0, 4);
        let operands = Operands {
            x: none.clone(),
            values: none.clone(),
            index: buffer(weight.index),
            offsets: buffer(weight.offsets),
            order: buffer(weight.order),
            bias: none,
        };
        let out = buffer(dvalues.clone());
        entries::gather(&client, dtype, family, &operands, &buffer(dense), &out);
        dvalues
    }

    fn apply_mask(weight: FloatTensor<Self>, mask: IntTensor<Self>) -> FloatTensor<Self> {
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

    fn decay_dropped(
        grad: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        mask: IntTensor<Self>,
        factor: f32,
    ) -> FloatTensor<Self> {
        // Once per step, next to a forward and a backward pass: not worth a kernel.
        let dropped = Self::float_sub(weight.clone(), Self::apply_mask(weight, mask));
        Self::float_add(grad, Self::float_mul_scalar(dropped, factor.into()))
    }
}

/// Converts the shape of a weight to that of the kernels.
fn family(shape: &PackedShape) -> Family {
    let PackedShape { rows, cols, layout, stored, .. } = *shape;
    let all = stored / TILE_ROWS;
    let slots = match layout {
        Layout::Grouped { vector } => return Family::Grouped(Grouped { rows, cols, vector }),
        Layout::Balanced { block, kept } => {
            Slots::Balanced { block, kept, per_row: all / rows.div_ceil(TILE_ROWS) }
        }
        Layout::Rows => Slots::Listed { all },
    };
    Family::Tiled(Tiled { rows, cols, slots })
}

/// Converts the element type; `linear::run` has rejected unsupported ones.
fn element(dtype: DType) -> ElemType {
    burn::backend::cubecl::dtype_to_elem_type(dtype)
}
