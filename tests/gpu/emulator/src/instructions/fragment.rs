//! `wmma`: loads, stores and products of whole tiles. PTX does not specify which lane holds which elements; here each
//! lane holds a run of them in row-major order.

use super::decode::{address, list, reg, tile};
use super::matrix::Element;
use super::op::Address;
use crate::machine::warp::{Machine, Warp, whole};
use crate::machine::window::Space;
use crate::text::{Argument, Reg};

/// One `wmma` instruction.
#[derive(Debug)]
pub(crate) enum Wmma {
    Load { to: Vec<Reg>, from: Address, stride: Option<Reg>, tile: Fragment },
    Store { to: Address, from: Vec<Reg>, stride: Option<Reg>, tile: Fragment },
    Multiply { to: Vec<Reg>, from: [Vec<Reg>; 3], tiles: [Fragment; 4] },
}

/// A tile, stored in memory in row-major or column-major order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fragment {
    rows: usize,
    columns: usize,
    by_columns: bool,
    element: Element,
}

impl Fragment {
    /// Returns the fragment of the named operand (`a`, `b`, or else a matrix of sums).
    fn of(parts: &[&str], operand: &str, element: Element) -> Option<Self> {
        let [m, n, k] = tile(parts)?;
        let (rows, columns) = match operand {
            "a" => (m, k),
            "b" => (k, n),
            _ => (m, n),
        };
        Some(Self { rows, columns, by_columns: parts.contains(&"col"), element })
    }

    /// Returns the number of elements that a lane holds.
    fn each(self) -> usize {
        self.rows * self.columns / 32
    }

    /// Returns `true` if this many registers can hold a lane's elements.
    fn fits(self, registers: usize) -> bool {
        registers * self.element.per_register() >= self.each()
    }

    /// Returns the indices of the elements that these lanes hold.
    fn held(self, lanes: u32) -> impl Iterator<Item = usize> {
        (0..self.rows * self.columns).filter(move |at| lanes >> (at / self.each()) & 1 == 1)
    }

    /// Returns the offset of element `at` in memory, in elements.
    fn place(self, at: usize, stride: usize) -> usize {
        let (row, column) = (at / self.columns, at % self.columns);
        if self.by_columns { column * stride + row } else { row * stride + column }
    }

    /// Returns the number of elements from one row (or column) to the next.
    fn stride(self, given: Option<u64>) -> usize {
        given.map_or(if self.by_columns { self.rows } else { self.columns }, |given| {
            given as u32 as usize
        })
    }

    /// Returns element `at` of the tile from the registers of its lane.
    fn get(self, warp: &Warp, regs: &[Reg], at: usize) -> u64 {
        let (lane, i) = (at / self.each(), at % self.each());
        let per = self.element.per_register();
        let word = warp.regs[regs[i / per] as usize][lane];
        if per == 2 { word >> (16 * (i % 2)) & 0xFFFF } else { word }
    }

    fn set(self, warp: &mut Warp, regs: &[Reg], at: usize, bits: u64) {
        let (lane, i) = (at / self.each(), at % self.each());
        let per = self.element.per_register();
        let word = &mut warp.regs[regs[i / per] as usize][lane];
        *word = match (per, i % 2) {
            (1, _) => bits,
            (_, 0) => *word & 0xFFFF_0000 | bits,
            _ => *word & 0xFFFF | bits << 16,
        };
    }
}

impl Wmma {
    pub(crate) fn of(parts: &[&str], arguments: &[Argument]) -> Option<Self> {
        let stride = |i: usize| match arguments.get(i) {
            None => Some(None),
            Some(argument) => reg(argument).map(Some),
        };
        match *parts.get(1)? {
            "load" => {
                let tile = Fragment::of(parts, parts.get(2)?, Element::of(parts.last()?)?)?;
                let to = list(arguments.first()?)?;
                let from = address(arguments.get(1)?, Space::of(parts))?;
                tile.fits(to.len()).then_some(Self::Load { to, from, stride: stride(2)?, tile })
            }
            "store" => {
                let tile = Fragment::of(parts, "d", Element::of(parts.last()?)?)?;
                let from = list(arguments.get(1)?)?;
                let to = address(arguments.first()?, Space::of(parts))?;
                tile.fits(from.len()).then_some(Self::Store { to, from, stride: stride(2)?, tile })
            }
            "mma" => {
                // With f16 operands, only the types of the sums are named.
                let types: Vec<Element> =
                    parts.iter().filter_map(|part| Element::of(part)).collect();
                let [sum, a, b, old] = match types[..] {
                    [sum, old] => [sum, Element::F16, Element::F16, old],
                    [sum, a, b, old] => [sum, a, b, old],
                    _ => return None,
                };
                let [to, a_regs, b_regs, old_regs] = arguments else { return None };
                let tiles = [("d", sum), ("a", a), ("b", b), ("c", old)];
                let [d, a, b, c] = tiles.map(|(name, element)| Fragment::of(parts, name, element));
                let (to, from) = (list(to)?, [list(a_regs)?, list(b_regs)?, list(old_regs)?]);
                let tiles = [d?, a?, b?, c?];
                let fits = tiles[0].fits(to.len())
                    && tiles[1..].iter().zip(&from).all(|(tile, regs)| tile.fits(regs.len()));
                fits.then_some(Self::Multiply { to, from, tiles })
            }
            _ => None,
        }
    }

    /// Loads and stores run per lane, so that a part of a warp may store its part of a tile; products require all
    /// lanes.
    pub(crate) fn run(
        &self,
        warp: &mut Warp,
        machine: &mut Machine<'_>,
        active: u32,
    ) -> Result<(), String> {
        let first = active.trailing_zeros() as usize;
        let number = |warp: &Warp, reg: Option<Reg>| reg.map(|reg| warp.regs[reg as usize][first]);
        match self {
            Self::Load { to, from, stride, tile } => {
                let stride = tile.stride(number(warp, *stride));
                let (space, start) = warp.locate(*from, first);
                for at in tile.held(active) {
                    let bytes = tile.element.bytes();
                    let mut word = [0; 8];
                    let address = start + (tile.place(at, stride) * bytes) as u64;
                    machine.read(warp.id, space, address, &mut word[..bytes])?;
                    tile.set(warp, to, at, u64::from_le_bytes(word));
                }
            }
            Self::Store { to, from, stride, tile } => {
                let stride = tile.stride(number(warp, *stride));
                let (space, start) = warp.locate(*to, first);
                for at in tile.held(active) {
                    let bytes = tile.element.bytes();
                    let word = tile.get(warp, from, at).to_le_bytes();
                    let address = start + (tile.place(at, stride) * bytes) as u64;
                    machine.write(warp.id, space, address, &word[..bytes])?;
                }
            }
            Self::Multiply { to, from: [a, b, c], tiles: [d, of_a, of_b, of_c] } => {
                whole(active)?;
                let numbers = |regs: &[Reg], tile: &Fragment| -> Vec<f64> {
                    let all = 0..tile.rows * tile.columns;
                    all.map(|at| tile.element.number(tile.get(warp, regs, at)).into()).collect()
                };
                let (a, b, c) = (numbers(a, of_a), numbers(b, of_b), numbers(c, of_c));
                for (at, c) in c.iter().enumerate() {
                    let (row, column) = (at / d.columns, at % d.columns);
                    let depth = of_a.columns;
                    let sum: f64 =
                        (0..depth).map(|k| a[row * depth + k] * b[k * d.columns + column]).sum();
                    d.set(warp, to, at, d.element.bits((c + sum) as f32));
                }
            }
        }
        Ok(())
    }
}
