//! Warp-wide instructions of the tensor-core kernels, each in PTX and in plain code.
//!
//! The plain form moves the same elements between the same lanes, so that a kernel's entire data movement can be
//! run on any runtime and only the instruction itself has to be trusted. It exchanges registers through `scratch`
//! in shared memory and must be called by all units of the cube together.
//!
//! Lane layouts: PTX ISA, "Warp-level matrix instructions", `ldmatrix` and `mma.m16n8k16`.

use cubecl::ir::FloatKind;
use cubecl::prelude::*;

/// Lanes per warp. Not the runtime's plane size, which the plain form must not depend on.
pub(crate) const WARP: usize = 32;

/// Implementation of the instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Tensor cores of an NVIDIA GPU, through inline PTX.
    Ptx,
    /// Plain code with the same lane layout.
    Plain,
}

/// Dtype of activations and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Element {
    F16,
    Bf16,
}

impl Element {
    pub(crate) fn of(dtype: ElemType) -> Self {
        match dtype {
            ElemType::Float(FloatKind::F16) => Self::F16,
            ElemType::Float(FloatKind::BF16) => Self::Bf16,
            other => panic!("tensor-core kernels multiply f16 and bf16, not {other:?}"),
        }
    }

    /// Returns the dtype's name in PTX.
    pub(crate) fn ptx(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

/// Two adjacent elements of the reduction, which one 32-bit register of a fragment holds.
pub(crate) type Pair<F> = Vector<F, Const<2>>;

/// Returns the number of pairs of scratch memory that the plain form of [`mma`] needs.
pub(crate) fn scratch_pairs(engine: Engine, warps: usize) -> usize {
    match engine {
        Engine::Ptx => 1,
        Engine::Plain => warps * WARP * 6,
    }
}

/// Returns the address of `memory` in the shared window. The instructions take this address, and computing it anew
/// for every access would cost several instructions. Plain code has no such address.
#[cube]
pub(crate) fn address_of<F: Float>(memory: &[F], #[comptime] engine: Engine) -> u32 {
    match comptime!(engine) {
        Engine::Ptx => {
            let from = memory.as_ptr();
            let address: u32;
            gpu_asm!(
                "{{ .reg .u64 s; cvta.to.shared.u64 s, {from}; cvt.u32.u64 {address}, s; }}",
                address = out(_) address, from = mem_in(_) from,
                options(explicit_mem)
            );
            address
        }
        Engine::Plain => 0u32,
    }
}

/// Copies 8 elements of 16 bits from global to shared memory (whose address is `base`). If `keep` is false, writes
/// zeros and reads nothing, whatever `from_at` is. Both addresses must be multiples of 16 bytes. Complete after
/// [`commit`] and [`wait`].
#[cube]
#[allow(clippy::too_many_arguments)]
pub(crate) fn copy8<F: Float>(
    from: &[F],
    from_at: usize,
    to: &mut [F],
    base: u32,
    to_at: usize,
    keep: bool,
    #[comptime] engine: Engine,
) {
    match comptime!(engine) {
        Engine::Ptx => {
            let bytes = select(keep, 16u32, 0u32);
            let source = from[from_at..from_at + 8].as_ptr();
            let target = base + to_at as u32 * 2;
            gpu_asm!(
                "cp.async.cg.shared.global [{to}], [{from}], 16, {bytes};",
                to = in(_) target, from = mem_in(_) source, bytes = in(_) bytes,
                options(explicit_mem)
            );
        }
        Engine::Plain =>
        {
            #[unroll]
            for i in 0..8usize {
                let mut value = F::new(0.0);
                if keep {
                    value = from[from_at + i];
                }
                to[to_at + i] = value;
            }
        }
    }
}

/// Closes a group of copies.
#[cube]
pub(crate) fn commit(#[comptime] engine: Engine) {
    if comptime!(engine == Engine::Ptx) {
        gpu_asm!("cp.async.commit_group;");
    }
}

/// Waits until at most `pending` of this unit's groups of copies are in flight.
#[cube]
pub(crate) fn wait(#[comptime] pending: usize, #[comptime] engine: Engine) {
    if comptime!(engine == Engine::Ptx) {
        gpu_asm!("cp.async.wait_group {pending};", pending = const pending);
    }
}

/// Operand that a fragment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Operand {
    /// 16 rows by 16 reduction elements: A of one `mma`.
    A,
    /// 16 reduction elements by 16 columns: B of two adjacent `mma`s.
    B,
}

/// Returns the row and column, in a 16 × 16 tile stored reduction-major, that lane `lane` addresses for
/// `ldmatrix.x4.trans`.
#[cube]
fn addressed(lane: usize, #[comptime] operand: Operand) -> (usize, usize) {
    let (matrix, line) = (lane / 8, lane % 8);
    match comptime!(operand) {
        Operand::A => (matrix / 2 * 8 + line, matrix % 2 * 8),
        Operand::B => (matrix % 2 * 8 + line, matrix / 2 * 8),
    }
}

/// Loads the fragment of the 16 × 16 tile at offset `at` of `tile` (whose address is `base`), with rows of the
/// reduction `pitch` elements apart, into four registers starting at `to`, one pair each.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(crate) fn load_fragment<F: Float>(
    tile: &[F],
    base: u32,
    at: usize,
    fragment: &mut Array<Pair<F>>,
    #[comptime] to: usize,
    #[comptime] pitch: usize,
    #[comptime] operand: Operand,
    #[comptime] engine: Engine,
) {
    let lane = UNIT_POS as usize % WARP;
    match comptime!(engine) {
        Engine::Ptx => {
            let (row, col) = addressed(lane, operand);
            let address = base + (at + row * pitch + col) as u32 * 2;
            let four: Vector<u32, Const<4>>;
            gpu_asm!(
                "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {four}, [{address}];",
                four = out(_) four, address = in(_) address,
            );
            #[unroll]
            for matrix in 0..4usize {
                fragment[comptime!(to + matrix)] = Pair::<F>::reinterpret(four.extract(matrix));
            }
        }
        Engine::Plain => {
            // Transposed: lane (group, pair) holds column `group` of rows `2 · pair` and `2 · pair + 1`.
            let (group, pair) = (lane / 4, lane % 4);
            #[unroll]
            for matrix in 0..4usize {
                let mut two = Pair::<F>::empty();
                #[unroll]
                for i in 0..2usize {
                    let (row, col) = addressed(matrix * 8 + pair * 2 + i, operand);
                    two.insert(i, tile[at + row * pitch + col + group]);
                }
                fragment[comptime!(to + matrix)] = two;
            }
        }
    }
}

/// Computes `c + A · B` for one 16 × 8 tile over 16 reduction elements: A in four registers from `a_at`, B in two
/// from `b_at`.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(crate) fn mma<F: Float>(
    a: &Array<Pair<F>>,
    #[comptime] a_at: usize,
    b: &Array<Pair<F>>,
    #[comptime] b_at: usize,
    c: Vector<f32, Const<4>>,
    scratch: &mut [Pair<F>],
    #[comptime] element: Element,
    #[comptime] engine: Engine,
) -> Vector<f32, Const<4>> {
    match comptime!(engine) {
        Engine::Ptx => {
            let element = comptime!(element.ptx());
            let a0 = u32::reinterpret(a[a_at]);
            let a1 = u32::reinterpret(a[comptime!(a_at + 1)]);
            let a2 = u32::reinterpret(a[comptime!(a_at + 2)]);
            let a3 = u32::reinterpret(a[comptime!(a_at + 3)]);
            let b0 = u32::reinterpret(b[b_at]);
            let b1 = u32::reinterpret(b[comptime!(b_at + 1)]);
            let d: Vector<f32, Const<4>>;
            gpu_asm!(
                "mma.sync.aligned.m16n8k16.row.col.f32.{element}.{element}.f32 ",
                "{d}, {{ {a0}, {a1}, {a2}, {a3} }}, {{ {b0}, {b1} }}, {c};",
                d = out(_) d, a0 = in(_) a0, a1 = in(_) a1, a2 = in(_) a2, a3 = in(_) a3, b0 = in(_) b0, b1 = in(_) b1, c = in(_) c,
                element = const element,
                options(nomem),
            );
            d
        }
        Engine::Plain => {
            let unit = UNIT_POS as usize;
            let (lane, warp) = (unit % WARP, unit / WARP * comptime!(WARP * 6));
            #[unroll]
            for i in 0..4usize {
                scratch[warp + lane * 6 + i] = a[comptime!(a_at + i)];
            }
            scratch[warp + lane * 6 + 4] = b[b_at];
            scratch[warp + lane * 6 + 5] = b[comptime!(b_at + 1)];
            sync_cube();
            let (group, pair) = (lane / 4, lane % 4);
            let mut d = c;
            #[unroll]
            for i in 0..4usize {
                // Rows `group` and `group + 8`, columns `2 · pair` and `2 · pair + 1`.
                let (upper, column) = (comptime!(i / 2), pair * 2 + i % 2);
                let mut sum = c.extract(i);
                #[unroll]
                for k in 0..16usize {
                    let holder = comptime!(k % 8 / 2);
                    let half = comptime!(k / 8);
                    let a = scratch[warp + (group * 4 + holder) * 6 + comptime!(half * 2) + upper];
                    let b = scratch[warp + (column * 4 + holder) * 6 + comptime!(4 + half)];
                    sum += f32::cast_from(a.extract(k % 2)) * f32::cast_from(b.extract(k % 2));
                }
                d.insert(i, sum);
            }
            sync_cube();
            d
        }
    }
}
