//! `wgmma.mma_async`: PTX ISA, "Asynchronous warpgroup-level matrix instructions". Each warp of a warpgroup multiplies
//! its sixteen rows, as late as permitted: when it waits.

use super::decode::{Decoder, list, reg, tile};
use crate::instructions::matrix::{Element, floats};
use crate::instructions::value::{LANES, Value};
use crate::machine::warp::{Machine, Warp};
use crate::text::{Argument, Reg};

/// `m64nNk16` with 16-bit operands, both in shared memory.
#[derive(Debug)]
pub(crate) struct Wgmma {
    columns: usize,
    sums: Vec<Reg>,
    a: Reg,
    b: Reg,
    /// Predicate: `true` if the product is added to the old sums.
    accumulate: Reg,
    signs: [f32; 2],
    /// `true` for each operand whose rows (or columns) are adjacent in memory (MN-major).
    transposed: [bool; 2],
    element: Element,
}

/// An issued instruction that has not run yet.
#[derive(Debug)]
pub(crate) struct Issued {
    columns: usize,
    sums: Vec<Reg>,
    a: Descriptor,
    b: Descriptor,
    accumulate: bool,
    sign: f32,
    element: Element,
}

/// Reduction depth of the instruction.
const DEPTH: usize = 16;

impl Wgmma {
    pub(crate) fn of(
        parts: &[&str],
        arguments: &[Argument],
        decoder: &Decoder<'_>,
    ) -> Option<Self> {
        let [64, columns, DEPTH] = tile(parts)? else { return None };
        let [.., "f32", left, right] = parts else { return None };
        let [sums, a, b, accumulate, sign_a, sign_b, transposed_a, transposed_b] = arguments else {
            return None;
        };
        let sign = |argument| match decoder.constant(argument)? {
            1 => Some(1.0),
            u64::MAX => Some(-1.0),
            _ => None,
        };
        let flag = |argument| match decoder.constant(argument)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
        let wgmma = Self {
            columns,
            sums: list(sums)?,
            a: reg(a)?,
            b: reg(b)?,
            accumulate: reg(accumulate)?,
            signs: [sign(sign_a)?, sign(sign_b)?],
            transposed: [flag(transposed_a)?, flag(transposed_b)?],
            element: Element::of(left).filter(|e| [Element::F16, Element::Bf16].contains(e))?,
        };
        let fits = left == right
            && columns.is_multiple_of(8)
            && (8..=256).contains(&columns)
            && wgmma.sums.len() * 2 == columns;
        fits.then_some(wgmma)
    }

    /// Returns the product to be computed when the warp waits.
    pub(crate) fn issue(&self, warp: &Warp) -> Result<Issued, String> {
        let same = |reg: Reg| {
            let lanes = &warp.regs[reg as usize];
            let first = lanes[0];
            match lanes.iter().all(|lane| *lane == first) {
                true => Ok(first),
                false => Err("wgmma: the lanes of a warp give different descriptors".to_string()),
            }
        };
        Ok(Issued {
            columns: self.columns,
            sums: self.sums.clone(),
            a: Descriptor::of(same(self.a)?, self.transposed[0])?,
            b: Descriptor::of(same(self.b)?, self.transposed[1])?,
            accumulate: same(self.accumulate)? & 1 == 1,
            sign: self.signs[0] * self.signs[1],
            element: self.element,
        })
    }
}

impl Issued {
    pub(crate) fn run(&self, warp: &mut Warp, machine: &mut Machine<'_>) -> Result<(), String> {
        if let Some(counts) = &mut machine.counts {
            counts.products += (16 * self.columns * DEPTH) as u64;
            counts.operand(2 * 16 * DEPTH);
            // The four warps read the other operand once, together.
            if warp.id.is_multiple_of(4) {
                counts.operand(2 * self.columns * DEPTH);
            }
        }
        // A warp computes a quarter of the rows, selected by its position among the four.
        let first = usize::from(warp.id) % 4 * 16;
        let a = self.a.read::<16>(warp, machine, first, self.element)?;
        for block in 0..self.columns / 8 {
            let b = self.b.read::<8>(warp, machine, block * 8, self.element)?;
            for i in 0..4 {
                let reg = self.sums[block * 4 + i] as usize;
                let old = if self.accumulate { floats(&warp.regs[reg]) } else { [0.0; LANES] };
                warp.regs[reg] = std::array::from_fn(|lane| {
                    let (row, column) = (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
                    let sum: f64 =
                        (0..DEPTH).map(|k| f64::from(a[k][row]) * f64::from(b[k][column])).sum();
                    ((f64::from(old[lane]) + f64::from(self.sign) * sum) as f32).bits()
                });
            }
        }
        Ok(())
    }
}

/// A matrix in shared memory, in one of the layouts that CUTLASS calls canonical: units of 16 bytes, eight of them (of
/// other rows, or of other steps of the reduction) one after the other, with each pattern repeated at the leading and
/// at the stride offset.
#[derive(Debug, Clone, Copy)]
struct Descriptor {
    start: u64,
    leading: u64,
    stride: u64,
    /// Number of 16-byte units in a swizzled row: 1 (not swizzled), 2, 4 or 8.
    units: u64,
    /// `true` if rows of the operand, not steps of its reduction, are adjacent in memory.
    transposed: bool,
}

impl Descriptor {
    fn of(bits: u64, transposed: bool) -> Result<Self, String> {
        let field = |from: u32| (bits >> from & 0x3FFF) << 4;
        let units = [1, 8, 4, 2][(bits >> 62) as usize];
        if bits >> 49 & 7 != 0 {
            return Err("wgmma: base offsets are not emulated".into());
        }
        Ok(Self { start: field(0), leading: field(16), stride: field(32), units, transposed })
    }

    /// Returns the address of element (row or column) `mn` of step `k`.
    fn address(&self, mn: usize, k: usize) -> u64 {
        let (mn, k) = (mn as u64, k as u64);
        let &Self { start, leading, stride, units, transposed } = self;
        let row = 16 * units;
        let offset = match (transposed, units) {
            (true, 1) => mn % 8 * 2 + mn / 8 * stride + k % 8 * 16 + k / 8 * leading,
            (true, _) => {
                mn % (8 * units) * 2 + mn / (8 * units) * leading + k % 8 * row + k / 8 * stride
            }
            (false, 1) => mn % 8 * 16 + mn / 8 * stride + k % 8 * 2 + k / 8 * leading,
            (false, _) => mn % 8 * row + mn / 8 * stride + k * 2,
        };
        let at = start + offset;
        // The swizzle XORs bits 4 and up with bits 7 and up of the address itself.
        at ^ (at >> 7 & (units - 1)) << 4
    }

    /// Reads `N` rows (or columns) from `first` on, for every step of the reduction.
    fn read<const N: usize>(
        &self,
        warp: &Warp,
        machine: &mut Machine<'_>,
        first: usize,
        element: Element,
    ) -> Result<[[f32; N]; DEPTH], String> {
        let mut found = [[0.0; N]; DEPTH];
        for (k, row) in found.iter_mut().enumerate() {
            for (i, to) in row.iter_mut().enumerate() {
                let mut bytes = [0; 2];
                let at = self.address(first + i, k);
                machine.shared.read_by_proxy(warp.id, at, &mut bytes, machine.fences)?;
                *to = element.number(u16::from_le_bytes(bytes).into());
            }
        }
        Ok(found)
    }
}
