//! `ldmatrix`, `stmatrix` and `mma`: the layouts of PTX ISA, "Warp-level matrix instructions".

use half::{bf16, f16};

use super::decode::{address, list, matrices, tile};
use super::op::Address;
use crate::instructions::value::{LANES, Lanes, Value};
use crate::machine::warp::{Machine, Warp};
use crate::machine::window::Space;
use crate::text::{Argument, Reg};

/// `ldmatrix`: loads 8×8 matrices of 16-bit elements; eight lanes hold the row addresses of each matrix.
#[derive(Debug)]
pub(crate) struct LoadMatrix {
    to: Vec<Reg>,
    from: Address,
    transposed: bool,
}

/// `stmatrix`: the inverse of [`LoadMatrix`].
#[derive(Debug)]
pub(crate) struct StoreMatrix {
    to: Address,
    from: Vec<Reg>,
    transposed: bool,
}

/// Returns the row and column, in its 8×8 matrix, of the first or second half of a lane's register.
fn place(lane: usize, half: usize, transposed: bool) -> (usize, usize) {
    let (row, column) = (lane / 4, lane % 4 * 2 + half);
    if transposed { (column, row) } else { (row, column) }
}

impl LoadMatrix {
    pub(crate) fn of(parts: &[&str], arguments: &[Argument]) -> Option<Self> {
        let to = list(arguments.first()?)?;
        (parts.contains(&"m8n8") && matrices(parts) == Some(to.len())).then_some(())?;
        let from = address(arguments.get(1)?, Space::of(parts))?;
        Some(Self { to, from, transposed: parts.contains(&"trans") })
    }

    pub(crate) fn run(&self, warp: &mut Warp, machine: &mut Machine<'_>) -> Result<(), String> {
        let lanes = u32::MAX >> (32 - 8 * self.to.len());
        warp.count(self.from, 16, lanes, machine);
        // All addresses are read first because a result may overwrite the address register.
        let lines = (0..8 * self.to.len()).map(|lane| warp.shared_row(self.from, lane));
        let lines = lines.collect::<Result<Vec<_>, _>>()?;
        for (lines, to) in lines.chunks_exact(8).zip(&self.to) {
            let mut rows = [[0_u16; 8]; 8];
            for (at, row) in lines.iter().zip(&mut rows) {
                let mut bytes = [0; 16];
                machine.shared.read(warp.id, *at, &mut bytes)?;
                *row =
                    std::array::from_fn(|i| u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]));
            }
            warp.regs[*to as usize] = std::array::from_fn(|lane| {
                let half = |half| {
                    let (row, column) = place(lane, half, self.transposed);
                    u64::from(rows[row][column])
                };
                half(0) | half(1) << 16
            });
        }
        Ok(())
    }
}

impl StoreMatrix {
    pub(crate) fn of(parts: &[&str], arguments: &[Argument]) -> Option<Self> {
        let from = list(arguments.get(1)?)?;
        (parts.contains(&"m8n8") && matrices(parts) == Some(from.len())).then_some(())?;
        let to = address(arguments.first()?, Space::of(parts))?;
        Some(Self { to, from, transposed: parts.contains(&"trans") })
    }

    pub(crate) fn run(&self, warp: &mut Warp, machine: &mut Machine<'_>) -> Result<(), String> {
        let lanes = u32::MAX >> (32 - 8 * self.from.len());
        warp.count(self.to, 16, lanes, machine);
        for (matrix, from) in self.from.iter().enumerate() {
            let mut rows = [[0_u8; 16]; 8];
            for (lane, bits) in warp.regs[*from as usize].iter().enumerate() {
                for half in 0..2 {
                    let (row, column) = place(lane, half, self.transposed);
                    let bytes = ((bits >> (16 * half)) as u16).to_le_bytes();
                    rows[row][2 * column..2 * column + 2].copy_from_slice(&bytes);
                }
            }
            for (line, row) in rows.iter().enumerate() {
                let at = warp.shared_row(self.to, matrix * 8 + line)?;
                machine.shared.write(warp.id, at, row)?;
            }
        }
        Ok(())
    }
}

/// Element type of an operand of a matrix instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    F16,
    Bf16,
    Tf32,
    F32,
}

impl Element {
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            _ => return None,
        })
    }

    /// Returns the number of elements per register.
    pub(crate) fn per_register(self) -> usize {
        if matches!(self, Self::F16 | Self::Bf16) { 2 } else { 1 }
    }

    pub(crate) fn number(self, bits: u64) -> f32 {
        match self {
            Self::F16 => f16::get(bits).to_f32(),
            Self::Bf16 => bf16::get(bits).to_f32(),
            // The hardware uses 10 bits of the fraction.
            Self::Tf32 => f32::get(bits & !0x1FFF),
            Self::F32 => f32::get(bits),
        }
    }

    /// Returns the size in memory, in bytes.
    pub(crate) fn bytes(self) -> usize {
        4 / self.per_register()
    }

    pub(crate) fn bits(self, x: f32) -> u64 {
        match self {
            Self::F16 => f16::from_f32(x).bits(),
            Self::Bf16 => bf16::from_f32(x).bits(),
            Self::Tf32 | Self::F32 => x.bits(),
        }
    }
}

/// `mma.m16n8kK`.
#[derive(Debug)]
pub(crate) struct Mma {
    depth: usize,
    to: Vec<Reg>,
    a: Vec<Reg>,
    b: Vec<Reg>,
    c: Vec<Reg>,
    input: Element,
    sum: Element,
}

impl Mma {
    pub(crate) fn of(parts: &[&str], arguments: &[Argument]) -> Option<Self> {
        let [m, n, depth] = tile(parts)?;
        let [.., sum, input, other, sum_too] = parts else { return None };
        let ([to, a, b, c], true) =
            (arguments, (m, n) == (16, 8) && input == other && sum == sum_too)
        else {
            return None;
        };
        let (input, sum) = (Element::of(input)?, Element::of(sum)?);
        let [to, a, b, c] = [to, a, b, c].map(list);
        let mma = Self { depth, to: to?, a: a?, b: b?, c: c?, input, sum };
        let (sums, inputs) = (sum.per_register(), input.per_register());
        let fits = mma.to.len() * sums == 4
            && mma.c.len() * sums == 4
            && mma.a.len() * inputs * LANES == 16 * depth
            && mma.b.len() * inputs * LANES == 8 * depth
            && !parts.contains(&"sp");
        fits.then_some(mma)
    }

    pub(crate) fn run(&self, warp: &mut Warp, machine: &mut Machine<'_>) {
        if let Some(counts) = &mut machine.counts {
            counts.products += (16 * 8 * self.depth) as u64;
        }
        let per = self.input.per_register();
        // The registers of a fragment advance by eight rows first, then by half the depth.
        let mut a = [[0.0_f32; 16]; 16];
        for (i, reg) in self.a.iter().enumerate() {
            for (lane, bits) in warp.regs[*reg as usize].iter().enumerate() {
                for half in 0..per {
                    let k = i / 2 * 4 * per + lane % 4 * per + half;
                    a[i % 2 * 8 + lane / 4][k] = self.input.number(bits >> (16 * half));
                }
            }
        }
        let mut b = [[0.0_f32; 8]; 16];
        for (i, reg) in self.b.iter().enumerate() {
            for (lane, bits) in warp.regs[*reg as usize].iter().enumerate() {
                for half in 0..per {
                    let k = i * 4 * per + lane % 4 * per + half;
                    b[k][lane / 4] = self.input.number(bits >> (16 * half));
                }
            }
        }
        let mut sums = [[0.0_f64; 8]; 16];
        for (sums, a) in sums.iter_mut().zip(&a) {
            for (a, b) in a.iter().zip(&b).take(self.depth) {
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum += f64::from(*a) * f64::from(*b);
                }
            }
        }
        let per = self.sum.per_register();
        // The old sums are copied first because a result may overwrite their registers.
        let c: Vec<Lanes> = self.c.iter().map(|c| warp.regs[*c as usize]).collect();
        for (i, (to, c)) in self.to.iter().zip(c).enumerate() {
            warp.regs[*to as usize] = std::array::from_fn(|lane| {
                let half = |half: usize| {
                    let at = i * per + half;
                    let sum = sums[lane / 4 + at / 2 * 8][lane % 4 * 2 + at % 2];
                    let c = self.sum.number(c[lane] >> (16 * half) & self.mask());
                    self.sum.bits((f64::from(c) + sum) as f32) << (16 * half)
                };
                (0..per).map(half).sum()
            });
        }
    }

    fn mask(&self) -> u64 {
        if self.sum.per_register() == 2 { 0xFFFF } else { 0xFFFF_FFFF }
    }
}

/// Returns the lanes of a register as f32.
pub(crate) fn floats(lanes: &Lanes) -> [f32; LANES] {
    lanes.map(f32::get)
}
