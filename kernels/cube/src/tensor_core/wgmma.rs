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
use super::ring::{Placement, Reach, Ring, SPAN, fill, read_ids, row_at, slice_of, store_rows};
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

/// The PTX of a stage: `%0..` the new sums, then the old ones and the two descriptors.
fn text(tile: WideTile, element: Element) -> String {
    let (sums, width, element) = (tile.sums(), tile.width(), element.ptx());
    let list: Vec<String> = (0..sums).map(|i| format!("%{i}")).collect();
    let list = list.join(", ");
    let mut text = String::from("{ .reg .u64 a, b; .reg .pred p; setp.ne.b32 p, 1, 0;\n");
    for i in 0..sums {
        text += &format!("mov.f32 %{i}, %{};\n", sums + i);
    }
    text += &format!("mov.u64 a, %{}; mov.u64 b, %{};\n", 2 * sums, 2 * sums + 1);
    text += "wgmma.fence.sync.aligned;\n";
    for step in 0..tile.depth / 16 {
        if step > 0 {
            // Descriptors count in 16 bytes.
            let step = 2 * ATOM_BYTES / 16;
            text += &format!("add.u64 a, a, {step}; add.u64 b, b, {step};\n");
        }
        text += &format!(
            "wgmma.mma_async.sync.aligned.m64n{width}k16.f32.{element}.{element} {{{list}}}, \
             a, b, p, 1, 1, 1, 1;\n"
        );
    }
    text + "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; }\n"
}

/// The matrix descriptor of the operand at `at` (PTX ISA, "Matrix descriptor format").
#[cube]
fn descriptor<F: Float>(memory: &[F], at: usize, #[comptime] tile: WideTile) -> u64 {
    let from = memory[at..at + 8].as_ptr();
    let address: u32;
    gpu_asm!(
        "{{ .reg .u64 s; cvta.to.shared.u64 s, {from}; cvt.u32.u64 {address}, s; }}",
        address = out(_) address, from = mem_in(_) from,
        options(explicit_mem)
    );
    let fixed = comptime!(
        ((tile.leading() as u64) >> 4) << 16 | ((ATOM_BYTES as u64) >> 4) << 32 | 1_u64 << 62
    );
    u64::cast_from((address & 0x3FFFF) >> 4) | fixed
}

/// `sums + A · B` over one stage: A at `a`, B at `b`.
#[cube]
#[allow(clippy::too_many_arguments)]
fn multiply<F: Float, N: Size>(
    sums: &mut Array<Vector<f32, N>>,
    memory: &[F],
    a: usize,
    b: usize,
    #[comptime] tile: WideTile,
    #[comptime] element: Element,
    #[comptime] engine: Engine,
) {
    match comptime!(engine) {
        Engine::Ptx => {
            let (a, b) = (descriptor::<F>(memory, a, tile), descriptor::<F>(memory, b, tile));
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
    let reach = Reach { end, first: CUBE_POS_Y as usize * comptime!(tile.tokens), pitch, cols };

    let size!(N) = comptime!(lanes(tile, engine));
    let mut sums = Array::<Vector<f32, N>>::new(comptime!(tile.sums() / lanes(tile, engine)));
    #[unroll]
    for i in 0..comptime!(tile.sums() / lanes(tile, engine)) {
        sums[i] = Vector::new(0.0);
    }

    let mut ids = Array::<u32>::new(comptime!(tile.ring().ids()));
    let mut from = begin;
    read_ids(&mut ids, columns, from, end, ring);
    for slot in 0..comptime!(tile.stages - 1) {
        fill::<F>(x, values, &ids, &mut memory, slot, from, &reach, ring, engine);
        from += comptime!(tile.depth);
        read_ids(&mut ids, columns, from, end, ring);
    }

    let steps = (end - begin).div_ceil(comptime!(tile.depth));
    for step in 0..steps {
        wait(comptime!(tile.stages - 2), engine);
        if comptime!(engine == Engine::Ptx) {
            // Copies write as threads do, `wgmma` reads as the asynchronous proxy does.
            gpu_asm!("fence.proxy.async.shared::cta;");
        }
        // Every thread's copies of this stage have landed, and every warp is done with the one before,
        // whose slot is filled next.
        sync_cube();
        let ahead = (step + comptime!(tile.stages - 1)) % comptime!(tile.stages);
        if !multiplies_first {
            fill::<F>(x, values, &ids, &mut memory, ahead, from, &reach, ring, engine);
            read_ids(&mut ids, columns, from + comptime!(tile.depth), end, ring);
        }
        let slot = step % comptime!(tile.stages) * comptime!(tile.depth);
        let a = comptime!(ring.values_at())
            + slot * comptime!(tile.vector)
            + top * comptime!(tile.depth);
        let b = slot * comptime!(tile.tokens) + left * comptime!(tile.depth);
        multiply::<F, N>(&mut sums, &memory, a, b, tile, element, engine);
        if multiplies_first {
            fill::<F>(x, values, &ids, &mut memory, ahead, from, &reach, ring, engine);
            read_ids(&mut ids, columns, from + comptime!(tile.depth), end, ring);
        }
        from += comptime!(tile.depth);
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
