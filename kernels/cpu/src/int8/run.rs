use std::ops::Range;

use super::dots::{ByteIsa, dispatch};
use super::inputs::{Inputs, quantize, stretches, stride};
use super::quads::{Quads, Stored};
use super::store::{Reorder, Target};
use super::weight::{ByteWeight, Form};
use super::{dense, expanded, kept};
use crate::Store;
use crate::layout::TILE_ROWS;
use crate::parallel::{Shared, Team, for_each_part, for_each_range, part, team, with_scratch};
use crate::size::elements;

/// Number of multiply-adds of bytes that take the time of one of floats.
const PER_FLOAT: usize = 4;

/// Target size in bytes of the inputs and outputs of a block of tokens, so that they stay in the second-level cache.
const BLOCK_BYTES: usize = 256 << 10;

/// Minimum and maximum number of tokens of a block. The weights are read once for each block.
const BLOCK_TOKENS: Range<usize> = 16..128;

/// Returns the number of tokens of a block.
fn block_tokens(weight: &ByteWeight) -> usize {
    let bytes = stride(weight.cols) + weight.lanes.len() * TILE_ROWS * size_of::<f32>();
    (BLOCK_BYTES / bytes).next_multiple_of(8).clamp(BLOCK_TOKENS.start, BLOCK_TOKENS.end)
}

/// Computes `y [n, rows] = activation(x [n, cols] · Wᵀ + bias)`, with inputs rounded to bytes, each stretch of a token with its
/// own scale.
///
/// # Panics
/// Panics if slices do not have these lengths, which callers check.
pub fn run(isa: ByteIsa, weight: &ByteWeight, x: &[f32], store: Store<'_>) -> Vec<f32> {
    let n = x.len() / weight.cols;
    assert_eq!(x.len(), n * weight.cols);
    assert!(store.bias.is_none_or(|bias| bias.len() == weight.rows));
    let outputs = elements(&[n, weight.rows]);
    let mut y = Vec::with_capacity(outputs);
    let out = Shared::spare(&mut y);
    let call = Call { isa, weight, x, store, y: out };
    let team = team(weight.work() * n / PER_FLOAT, weight.bytes());
    if n >= BLOCK_TOKENS.start * team.threads {
        call.by_tokens(n, team);
    } else {
        call.by_units(n, team);
    }
    // SAFETY: every lane's row is written for every token, and every row has a lane.
    unsafe { y.set_len(outputs) };
    y
}

#[derive(Clone, Copy)]
struct Call<'a> {
    isa: ByteIsa,
    weight: &'a ByteWeight,
    x: &'a [f32],
    store: Store<'a>,
    y: Shared,
}

impl Call<'_> {
    /// For few tokens: divides the rows among threads.
    fn by_units(self, n: usize, team: Team) {
        let Self { isa, weight, x, store, y } = self;
        with_inputs(isa, x, weight.cols, n, |inputs| {
            let target = Target { store, y, stride: weight.rows, in_lanes: false };
            for_each_range(weight.units.len(), team, |units| {
                multiply(isa, weight, units, inputs, target)
            });
        });
    }

    /// For many tokens: divides blocks of tokens among threads, and reorders the outputs of a block while they are cached.
    fn by_tokens(self, n: usize, team: Team) {
        let Self { isa, weight, x, store, y } = self;
        let (most, units) = (block_tokens(weight), 0..weight.units.len());
        let blocks = n.div_ceil(most).next_multiple_of(team.threads);
        for_each_part(blocks, team, |block| {
            let tokens = part(n, block, blocks);
            let x = &x[tokens.start * weight.cols..tokens.end * weight.cols];
            // SAFETY: blocks are disjoint ranges of the tokens of `y`.
            let y = unsafe { y.at(tokens.start * weight.rows) };
            with_inputs(isa, x, weight.cols, tokens.len(), |inputs| {
                if weight.places.is_empty() {
                    let target = Target { store, y, stride: weight.rows, in_lanes: false };
                    return multiply(isa, weight, units.clone(), inputs, target);
                }
                let stride = weight.lanes.len() * TILE_ROWS;
                with_scratch(tokens.len() * stride, |lanes| {
                    let target = Target { store, y: Shared::new(lanes), stride, in_lanes: true };
                    multiply(isa, weight, units.clone(), inputs, target);
                    dispatch(isa, Reorder { places: &weight.places, lanes, stride, y });
                });
            });
        });
    }
}

/// Calls `use_them` with `x [n, cols]` in bytes.
fn with_inputs(isa: ByteIsa, x: &[f32], cols: usize, n: usize, use_them: impl FnOnce(Inputs<'_>)) {
    let (stride, stretches) = (stride(cols), stretches(cols));
    // Bytes use the aligned memory that is kept between calls for floats.
    with_scratch(n * stride / 4 + n * stretches, |scratch| {
        let (bytes, scales) = scratch.split_at_mut(n * stride / 4);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(bytes);
        quantize(isa, x, cols, bytes, scales);
        use_them(Inputs { bytes, stride, scales, stretches });
    });
}

fn multiply(
    isa: ByteIsa,
    weight: &ByteWeight,
    units: Range<usize>,
    inputs: Inputs<'_>,
    target: Target<'_>,
) {
    match &weight.quads {
        Quads::Bytes(quads) => multiply_quads(isa, weight, quads, units, inputs, target),
        Quads::Codes(quads) => multiply_quads(isa, weight, quads, units, inputs, target),
    }
}

fn multiply_quads<Q: Stored>(
    isa: ByteIsa,
    weight: &ByteWeight,
    quads: &[Q],
    units: Range<usize>,
    inputs: Inputs<'_>,
    target: Target<'_>,
) {
    match &weight.form {
        Form::Dense => dispatch(isa, dense::Multiply { weight, quads, units, inputs, target }),
        Form::Expanded(expanded) => {
            // Allocated outside the kernel: a closure is not compiled for the instruction set.
            with_scratch(expanded::scratch(weight), |scratch| {
                let quads = scratch.as_mut_ptr().cast();
                dispatch(
                    isa,
                    expanded::Multiply { weight, expanded, units, inputs, target, quads },
                );
            });
        }
        Form::Kept(kept) => {
            dispatch(isa, kept::Multiply { weight, quads, kept, units, inputs, target });
        }
    }
}
