//! Multiplication of a warpgroup over one stage of the ring, in PTX and in plain code.
//!
//! The instruction accumulates in place, but inline PTX has no operand here that is both read and written. The text
//! therefore moves the old sums to the new ones first, and the assembler folds the moves away. Each block of text ends
//! with its own wait, so that no register is in flight between two blocks.

use cubecl::prelude::*;

use super::Engine;
use super::instructions::{Element, WARP};
use super::ring::SPAN;
use super::wide_tile::{SPAN_BYTES, WideTile};

/// Bytes of eight swizzled rows: the stride between reduction steps of eight.
const ATOM_BYTES: usize = 8 * SPAN_BYTES;

/// Returns the number of elements per vector: all of a thread's sums for PTX, which needs them in one value,
/// otherwise one.
pub(super) fn lanes(tile: WideTile, engine: Engine) -> usize {
    match engine {
        Engine::Ptx => tile.sums(),
        Engine::Plain => 1,
    }
}

/// Returns the PTX of a stage: `%0..` are the new sums, followed by the old ones and the lower words of the two
/// descriptors, whose upper word is a constant.
fn text(tile: WideTile, element: Element) -> String {
    let (sums, width, element) = (tile.sums(), tile.width(), element.ptx());
    let list: Vec<String> = (0..sums).map(|i| format!("%{i}")).collect();
    let list = list.join(", ");
    let mut text =
        String::from("{ .reg .u32 x, y, h; .reg .u64 a, b; .reg .pred p; setp.ne.b32 p, 1, 0;\n");
    for i in 0..sums {
        text += &format!("mov.f32 %{i}, %{};\n", sums + i);
    }
    text += &format!("mov.u32 h, {};\n", DESCRIPTOR_HIGH);
    text += "wgmma.fence.sync.aligned;\n";
    for step in 0..tile.depth / 16 {
        // Descriptors count in units of 16 bytes.
        let step = step * 2 * ATOM_BYTES / 16;
        text += &format!(
            "add.u32 x, %{}, {step}; add.u32 y, %{}, {step}; mov.b64 a, {{x, h}}; mov.b64 b, {{y, h}};\n",
            2 * sums,
            2 * sums + 1
        );
        text += &format!(
            "wgmma.mma_async.sync.aligned.m64n{width}k16.f32.{element}.{element} {{{list}}}, \
             a, b, p, 1, 1, 1, 1;\n"
        );
    }
    text + "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; }\n"
}

/// Upper word of a matrix descriptor: the stride between reduction steps of eight and the swizzle (PTX ISA,
/// "Matrix descriptor format").
const DESCRIPTOR_HIGH: u32 = (ATOM_BYTES as u32) >> 4 | 1 << 30;

/// Returns the lower word of a matrix descriptor: the address of the operand at offset `at` of the memory at
/// `base`, and the stride between columns.
#[cube]
fn descriptor(base: u32, at: usize, #[comptime] tile: WideTile) -> u32 {
    // In units of 16 bytes, in which the address has 14 bits: more than shared memory needs.
    base / 16 + at as u32 / 8 + comptime!((tile.leading() as u32) >> 4 << 16)
}

/// Adds `A · B` over one stage to `sums`, with A at offset `a` and B at offset `b`.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn multiply<F: Float, N: Size>(
    sums: &mut Array<Vector<f32, N>>,
    memory: &[F],
    base: u32,
    a: usize,
    b: usize,
    #[comptime] tile: WideTile,
    #[comptime] element: Element,
    #[comptime] engine: Engine,
) {
    match comptime!(engine) {
        Engine::Ptx => {
            let (a, b) = (descriptor(base, a, tile), descriptor(base, b, tile));
            let old = sums[0];
            let new: Vector<f32, N>;
            let text = comptime!(text(tile, element));
            gpu_asm!(
                "{text}// {new} {old} {a} {b}",
                text = const text,
                new = out(_) new, old = in(_) old, a = in(_) a, b = in(_) b,
            );
            sums[0] = new;
        }
        Engine::Plain => {
            let (line, column) = first_sum();
            for i in 0..comptime!(tile.sums()) {
                let row = line + i % 4 / 2 * 8;
                let token = column + i / 4 * 8 + i % 2;
                let mut sum = 0.0f32;
                for k in 0..comptime!(tile.depth) {
                    let w = memory[a + described(row, k, tile)];
                    let x = memory[b + described(token, k, tile)];
                    sum += f32::cast_from(w) * f32::cast_from(x);
                }
                sums[i] += Vector::new(sum);
            }
        }
    }
}

/// Returns the row and token, within a warpgroup's part, of this thread's first sum. Sum `i` is `i % 4 / 2 · 8`
/// rows and `i / 4 · 8 + i % 2` tokens further (PTX ISA, "Register fragments for wgmma.mma_async").
#[cube]
pub(super) fn first_sum() -> (usize, usize) {
    let (lane, warp) = (UNIT_POS as usize % WARP, UNIT_POS as usize / WARP % 4);
    (warp * 16 + lane / 4, lane % 4 * 2)
}

/// Returns the offset at which the hardware finds element `mn` of reduction step `k` of an operand, according to
/// the strides of the descriptor and the swizzle.
#[cube]
fn described(mn: usize, k: usize, #[comptime] tile: WideTile) -> usize {
    let byte = mn / SPAN * comptime!(tile.leading())
        + k / 8 * ATOM_BYTES
        + k % 8 * SPAN_BYTES
        + mn % SPAN * 2;
    (byte ^ (byte / 128 % 8 * 16)) / 2
}
