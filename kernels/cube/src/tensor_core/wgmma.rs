//! `wgmma`, on Hopper: four warps together multiply 64 rows straight from the ring's shared memory, whose
//! rows lie in the 128-byte swizzle. Both operands are MN-major there: a stage is stored as it is
//! gathered, and the instruction transposes.
//!
//! The instruction accumulates in place, but inline PTX has no operand that is both read and written
//! here: the text moves the old sums to the new ones first, and the assembler folds the moves away (with twice
//! the sums, 128 rows would spill, which `tests/gpu/compile.py` refuses). Each block of text ends with its own
//! wait, so that no register is in flight between two of them.

use cubecl::prelude::*;

use super::Engine;
use super::instructions::{Element, WARP, wait};
use super::ring::{
    Placement, Ring, SPAN, fill, next, reach, read_ids, row_at, slice_of, store_rows,
};
use crate::store::{Store, finish};

/// Threads that issue one instruction together.
const WARPGROUP: usize = 4 * WARP;
/// Rows of the instruction.
const ROWS: usize = 64;
/// Bytes of a swizzled row: 64 elements.
const SPAN_BYTES: usize = 2 * SPAN;
/// Bytes of eight swizzled rows: the stride between reduction steps of eight.
const ATOM_BYTES: usize = 8 * SPAN_BYTES;

/// How a cube divides its work: one warpgroup for each 64 rows, or for each share of the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WideTile {
    /// Rows of the group: 64 or 128.
    pub vector: usize,
    /// Tokens.
    pub tokens: usize,
    /// Kept columns of a stage: a multiple of 16.
    pub depth: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// Warpgroups along the tokens.
    pub across: usize,
}

impl WideTile {
    /// The tile for groups of `vector` rows, or `None` where no kernel fits.
    pub fn of(vector: usize) -> Option<Self> {
        match vector {
            // Half of a multiprocessor's shared memory: two cubes hide each other's ends.
            64 => Some(Self { vector, tokens: 256, depth: 32, stages: 5, across: 2 }),
            128 => Some(Self { vector, tokens: 256, depth: 64, stages: 4, across: 1 }),
            _ => None,
        }
    }

    pub(crate) fn check(&self) {
        let width = self.width();
        assert!(self.vector.is_multiple_of(ROWS), "{self:?}: rows of a warpgroup");
        assert!(width.is_multiple_of(SPAN) && width <= 256, "{self:?}: tokens of a warpgroup");
        self.ring().check();
    }

    pub(crate) fn ring(&self) -> Ring {
        let Self { vector, tokens, depth, stages, across } = *self;
        let threads = vector / ROWS * across * WARPGROUP;
        Ring { vector, tokens, depth, stages, threads, placement: Placement::Swizzled }
    }

    /// Tokens of a warpgroup: the width of the instruction.
    fn width(&self) -> usize {
        self.tokens / self.across
    }

    /// Sums of a thread.
    fn sums(&self) -> usize {
        self.width() / 2
    }

    /// Bytes between two columns of 64 elements.
    fn leading(&self) -> usize {
        self.depth * SPAN_BYTES
    }
}

/// Elements of a vector that holds all sums, or one: only PTX wants them in one value.
fn lanes(tile: WideTile, engine: Engine) -> usize {
    match engine {
        Engine::Ptx => tile.sums(),
        Engine::Plain => 1,
    }
}

/// The PTX of a stage: `%0..` the new sums, then the old ones and the lower words of the two descriptors, whose upper
/// word is a constant.
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
        // Descriptors count in 16 bytes.
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

/// Of a matrix descriptor, the stride between reduction steps of eight and the swizzle (PTX ISA, "Matrix descriptor
/// format").
const DESCRIPTOR_HIGH: u32 = (ATOM_BYTES as u32) >> 4 | 1 << 30;

/// The lower word: the address of the operand at `at` of the memory at `base`, and the stride between columns.
#[cube]
fn descriptor(base: u32, at: usize, #[comptime] tile: WideTile) -> u32 {
    // In units of 16 bytes, of which the address has 14 bits: more than there is shared memory.
    base / 16 + at as u32 / 8 + comptime!((tile.leading() as u32) >> 4 << 16)
}

/// `sums + A · B` over one stage: A at `a`, B at `b`.
#[cube]
#[allow(clippy::too_many_arguments)]
fn multiply<F: Float, N: Size>(
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
            let (line, column) = held();
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

/// Row and token, inside a warpgroup's part, of this thread's first sum. Sum `i` is `i % 4 / 2 · 8` rows
/// and `i / 4 · 8 + i % 2` tokens further (PTX ISA, "Register fragments for wgmma.mma_async").
#[cube]
fn held() -> (usize, usize) {
    let (lane, warp) = (UNIT_POS as usize % WARP, UNIT_POS as usize / WARP % 4);
    (warp * 16 + lane / 4, lane % 4 * 2)
}

/// Where the hardware finds element `mn` of reduction step `k` of an operand, by the strides of the
/// descriptor and the swizzle.
#[cube]
fn described(mn: usize, k: usize, #[comptime] tile: WideTile) -> usize {
    let byte = mn / SPAN * comptime!(tile.leading())
        + k / 8 * ATOM_BYTES
        + k % 8 * SPAN_BYTES
        + mn % SPAN * 2;
    (byte ^ (byte / 128 % 8 * 16)) / 2
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
pub(super) fn wgmma_kernel<F: Float>(
    x: &[F],
    values: &[F],
    columns: &[u32],
    offsets: &[u32],
    order: &[u32],
    bias: &[F],
    y: &mut [Vector<F, Const<8>>],
    pitch: usize,
    rows: usize,
    cols: usize,
    #[comptime] tile: WideTile,
    #[comptime] ordered: bool,
    #[comptime] store: Store,
    #[comptime] element: Element,
    #[comptime] engine: Engine,
    #[define(F)] _dtype: ElemType,
) {
    let ring = comptime!(tile.ring());
    let mut memory = Shared::<[F]>::new_aligned_slice(comptime!(tile.ring().memory()), 1024usize);

    // Where this warpgroup's part of the tile begins.
    let warpgroup = UNIT_POS as usize / WARPGROUP;
    let top = warpgroup / comptime!(tile.across) * ROWS;
    let left = warpgroup % comptime!(tile.across) * comptime!(tile.width());
    // Half of the warpgroups multiply while the others tell the copies, and the other way round.
    let multiplies_first = warpgroup % 2 == 1;
    let group = CUBE_POS_X as usize;
    let (begin, end) = slice_of(offsets, group, comptime!(tile.depth));
    let reach = reach::<F>(&memory, end, pitch, cols, ring, engine);

    let size!(N) = comptime!(lanes(tile, engine));
    let mut sums = Array::<Vector<f32, N>>::new(comptime!(tile.sums() / lanes(tile, engine)));
    #[unroll]
    for i in 0..comptime!(tile.sums() / lanes(tile, engine)) {
        sums[i] = Vector::new(0.0);
    }

    // Its operands in the first slot.
    let first_a = comptime!(ring.values_at()) + top * comptime!(tile.depth);
    let first_b = left * comptime!(tile.depth);
    let mut ids = Array::<u32>::new(comptime!(tile.ring().ids()));
    let mut from = begin;
    read_ids(&mut ids, columns, from, &reach, ring);
    for slot in 0..comptime!(tile.stages - 1) {
        fill::<F>(x, values, &ids, &mut memory, slot, from, &reach, ring, engine);
        from += comptime!(tile.depth);
        read_ids(&mut ids, columns, from, &reach, ring);
    }

    let steps = (end - begin).div_ceil(comptime!(tile.depth));
    let mut slot = 0usize;
    let mut ahead = comptime!(tile.stages - 1).runtime();
    for _ in 0..steps {
        wait(comptime!(tile.stages - 2), engine);
        if comptime!(engine == Engine::Ptx) {
            // Copies write as threads do, `wgmma` reads as the asynchronous proxy does.
            gpu_asm!("fence.proxy.async.shared::cta;");
        }
        // Every thread's copies of this stage have landed, and every warp is done with the one before,
        // whose slot is filled next.
        sync_cube();
        if !multiplies_first {
            fill::<F>(x, values, &ids, &mut memory, ahead, from, &reach, ring, engine);
            read_ids(&mut ids, columns, from + comptime!(tile.depth), &reach, ring);
        }
        let a = first_a + slot * comptime!(tile.depth * tile.vector);
        let b = first_b + slot * comptime!(tile.depth * tile.tokens);
        multiply::<F, N>(&mut sums, &memory, reach.base, a, b, tile, element, engine);
        if multiplies_first {
            fill::<F>(x, values, &ids, &mut memory, ahead, from, &reach, ring, engine);
            read_ids(&mut ids, columns, from + comptime!(tile.depth), &reach, ring);
        }
        from += comptime!(tile.depth);
        ahead = slot;
        slot = next(slot, ring);
    }

    // The rings' memory becomes the output tile, from which rows leave whole.
    wait(0usize, engine);
    sync_cube();
    let (line, column) = held();
    #[unroll]
    for upper in 0..2usize {
        let at = top + line + comptime!(upper * 8);
        let row = row_at(order, group * comptime!(tile.vector) + at, rows, ordered);
        #[unroll]
        for j in 0..comptime!(tile.sums() / 4) {
            #[unroll]
            for i in 0..2usize {
                let sum = comptime!(j * 4 + upper * 2 + i);
                let lanes = comptime!(lanes(tile, engine));
                let value = sums[comptime!(sum / lanes)].extract(comptime!(sum % lanes));
                let to =
                    at * comptime!(Ring::pitch(tile.tokens)) + left + column + comptime!(j * 8 + i);
                memory[to] = finish::<F>(value, bias, row, store);
            }
        }
    }
    sync_cube();
    store_rows::<F>(&memory, order, y, group, rows, &reach, ordered, ring, engine);
}
