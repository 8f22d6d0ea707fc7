//! Sums the slices of a product, applies bias and activation, and stores each row at its place.

use cubecl::prelude::*;

use crate::store::{finish, row_of};
use crate::transpose::pitch;
use crate::{Buffer, Call, Major, Store, grid};

/// Maximum number of slices: beyond it, the second pass costs more than idle multiprocessors.
const SLICES: usize = 16;
/// Threads that a multiprocessor holds; hiding memory latency takes all of them.
const THREADS: usize = 2048;
/// Bytes of shared memory that CUDA reserves for every cube; also how much more a multiprocessor has than one cube
/// may use.
const RESERVED: usize = 1024;

/// Cubes of a product before it is sliced.
pub(crate) struct Cubes {
    pub(crate) count: usize,
    /// Threads per cube.
    pub(crate) threads: usize,
    /// Bytes of shared memory per cube.
    pub(crate) shared: usize,
    /// Maximum number of slices that the work can be split into.
    pub(crate) slices: usize,
}

/// Partial sums `[slices, tokens, places]` in f32.
#[derive(Debug, Clone)]
pub(crate) struct Partial {
    pub(crate) sums: Buffer,
    pub(crate) slices: usize,
    pub(crate) tokens: usize,
    pub(crate) places: usize,
}

impl Partial {
    /// Allocates partial sums for the given number of `slices`, or for as many as fill the device. Returns `None`
    /// if the cubes already fill it.
    pub(crate) fn of(
        client: &Client,
        slices: Option<usize>,
        cubes: &Cubes,
        (tokens, places): (usize, usize),
    ) -> Option<Self> {
        let slices = match slices {
            Some(slices) => slices,
            None => {
                let hardware = &client.properties().hardware;
                // A device that does not report its multiprocessor count is assumed to be filled.
                let processors = hardware.num_streaming_multiprocessors? as usize;
                let memory = (hardware.max_shared_memory_size + RESERVED)
                    / (cubes.shared.next_multiple_of(128) + RESERVED);
                let held = processors * (THREADS / cubes.threads.max(1)).min(memory).max(1);
                let slices = (held / cubes.count.max(1)).min(cubes.slices).min(SLICES);
                (slices > 1).then_some(slices)?
            }
        };
        let sums = Buffer::empty(client, slices * tokens * places, size_of::<f32>());
        Some(Self { sums, slices, tokens, places })
    }
}

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn reduce_kernel<F: Float>(
    sums: &[f32],
    order: &[u32],
    bias: &[F],
    y: &mut [F],
    slices: usize,
    tokens: usize,
    places: usize,
    rows: usize,
    token_stride: usize,
    row_stride: usize,
    #[comptime] ordered: bool,
    #[comptime] store: Store,
    #[define(F)] _dtype: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at < tokens * places {
        let (token, place) = (at / places, at % places);
        if place < rows {
            let mut sum = 0.0f32;
            for slice in 0..slices {
                sum += sums[(slice * tokens + token) * places + place];
            }
            let row = row_of(order, place, ordered);
            y[token * token_stride + row * row_stride] = finish::<F>(sum, bias, row, store);
        }
    }
}

/// Computes a call's `y` from the partial sums.
pub(crate) fn reduce(call: &Call<'_>, partial: &Partial, rows: usize) {
    let Call { client, dtype, operands, y, store, .. } = *call;
    let Partial { ref sums, slices, tokens, places } = *partial;
    let (token_stride, row_stride) = match call.y_major {
        Major::Tokens => (rows, 1),
        Major::Features => (1, pitch(tokens)),
    };
    reduce_kernel::launch(
        client,
        grid::count(tokens * places),
        grid::dim(),
        AddressType::U32,
        sums.arg(),
        operands.order.arg(),
        operands.bias.arg(),
        y.arg(),
        slices,
        tokens,
        places,
        rows,
        token_stride,
        row_stride,
        call.ordered(),
        store,
        dtype,
    );
}

#[cfg(feature = "offline")]
pub(crate) fn offline(
    cuda: &crate::stand_in::Cuda,
    dtype: ElemType,
    store: Store,
) -> impl cubecl::CubeKernel {
    let (settings, properties, target) = cuda.start(grid::dim(), ExecutionMode::Checked);
    let b = crate::stand_in::buffer;
    reduce_kernel::ReduceKernel::new(
        settings,
        properties,
        target,
        b(),
        b(),
        b(),
        b(),
        (),
        (),
        (),
        (),
        (),
        (),
        true,
        store,
        dtype,
    )
}
