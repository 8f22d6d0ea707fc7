use cubecl::prelude::*;
use half::{bf16, f16};

use super::instructions::Element;
use super::{Engine, Kernel, forward};
use crate::grouped::{self, Grouped};
use crate::{Activation, Buffer, Call, Major, Operands, Store};

/// Returns `true` if this device's tensor cores give the same results as the portable kernel: small products on
/// both are compared bit by bit.
///
/// A kernel is compiled for every device of its architecture but is run on few of them before release. Dispatch
/// calls this function once per device, so that only kernels that have run on the device are trusted.
pub fn proves_itself(client: &Client, dtype: ElemType, kernel: Kernel) -> bool {
    trial(client, dtype, kernel, Engine::Ptx) == Some(true)
}

/// Returns `Some(true)` if a kernel's results are bitwise identical to those of the portable kernel, `Some(false)`
/// if they differ, or `None` if either fails to run. The numbers are chosen so that every sum is exact in f32,
/// regardless of order.
pub fn trial(client: &Client, dtype: ElemType, kernel: Kernel, engine: Engine) -> Option<bool> {
    let weight = Grouped { rows: 2 * kernel.vector() - 3, cols: 1009, vector: kernel.vector() };
    // More than one tile, so that every warp has work and one tile is partially filled.
    let tokens = kernel.tokens() + 44;
    // Two groups of different sizes, neither a multiple of a stage, and one with more stages than any ring has.
    let counts = [69, 700];
    let index: Vec<u32> = counts
        .into_iter()
        .flat_map(|count| (0..count).map(move |k| (k * 5 + count) % 1009))
        .collect();
    let store = Store { bias: true, activation: Activation::None };
    let order: Vec<u32> = (0..weight.rows as u32).rev().collect();
    let operands = Operands {
        x: small(client, dtype, weight.cols * tokens, 1),
        values: small(client, dtype, index.len() * weight.vector, 2),
        offsets: Buffer::of(client, &[0, counts[0], counts[0] + counts[1]]),
        order: Buffer::of(client, &order),
        bias: small(client, dtype, weight.rows, 3),
        index: Buffer::of(client, &index),
    };
    let run = |forward: &dyn Fn(&Call<'_>)| {
        let y = small(client, dtype, weight.rows * tokens, 4);
        let (x_major, y_major) = (Major::Tokens, Major::Tokens);
        forward(&Call {
            client,
            dtype,
            operands: &operands,
            y: &y,
            tokens,
            x_major,
            y_major,
            store,
        });
        // Launch failures are reported here.
        client.read_one(y.handle).ok()
    };
    let expected =
        run(&|call| grouped::forward(call, weight, grouped::Kernel::Tiles, None))?.to_vec();
    let slices: &[Option<usize>] = match kernel {
        // The sliced variant is a separate kernel.
        Kernel::Mma(_) => &[None, Some(3)],
        Kernel::Wgmma(_) => &[None],
    };
    for &slices in slices {
        let found = run(&|call| forward(call, weight, kernel, engine, slices))?;
        if found.to_vec() != expected {
            return Some(false);
        }
    }
    Some(true)
}

/// Returns a buffer of pseudo-random multiples of 1/4, from -3/4 to 3/4.
fn small(client: &Client, dtype: ElemType, len: usize, seed: u32) -> Buffer {
    let mut state = seed.wrapping_mul(2_654_435_761);
    let numbers = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 24) % 7) as f32 / 4.0 - 0.75
    });
    let numbers = numbers.take(len);
    match Element::of(dtype) {
        Element::F16 => Buffer::of(client, &numbers.map(f16::from_f32).collect::<Vec<_>>()),
        Element::Bf16 => Buffer::of(client, &numbers.map(bf16::from_f32).collect::<Vec<_>>()),
    }
}
