//! `atom` and `red`.

use super::decode::{address, list, reg};
use super::op::Address;
use crate::instructions::arithmetic::{self, Alu, of_two};
use crate::instructions::value::each;
use crate::machine::global::Global;
use crate::machine::warp::{Machine, Warp};
use crate::machine::window::Space;
use crate::text::{Argument, Reg, size_of};

/// One atomic operation on a scalar or a vector.
#[derive(Debug)]
pub(crate) struct Atomic {
    at: Address,
    bytes: usize,
    to: Option<Vec<Reg>>,
    from: Vec<Reg>,
    /// Value that `cas` compares the old value with.
    expected: Option<Reg>,
    /// Computes the new value from the old one and the operand.
    run: Alu,
}

impl Atomic {
    pub(crate) fn of(parts: &[&str], arguments: &[Argument]) -> Option<Self> {
        let ty = *parts.last()?;
        let result = parts[0] == "atom";
        let (to, rest) = if result {
            arguments.split_first().map(|(d, r)| (Some(d), r))?
        } else {
            (None, arguments)
        };
        let to = match to {
            None | Some(Argument::Nothing) => None,
            Some(to) => Some(list(to)?),
        };
        let operation = ["add", "min", "max", "and", "or", "xor", "exch", "cas"]
            .iter()
            .find(|o| parts.contains(*o))?;
        let integer = ty.replace('b', "u");
        let second: Alu = |_, b, _, _| *b;
        let run = match *operation {
            "exch" | "cas" => second,
            "and" | "or" | "xor" => arithmetic::find(&[operation, ty])?,
            operation if ty.contains('f') => arithmetic::find(&[operation, ty])?,
            operation => arithmetic::find(&[operation, &integer])?,
        };
        let cas = *operation == "cas";
        Some(Self {
            at: address(rest.first()?, Space::of(parts))?,
            bytes: size_of(ty)?,
            to,
            expected: if cas { Some(reg(rest.get(1)?)?) } else { None },
            from: list(rest.get(1 + usize::from(cas))?)?,
            run,
        })
    }

    pub(crate) fn run(
        &self,
        warp: &mut Warp,
        machine: &mut Machine<'_>,
        active: u32,
    ) -> Result<(), String> {
        for lane in each(active) {
            let (space, at) = warp.locate(self.at, lane);
            let _held = (space == Space::Global).then(Global::atomic);
            for (i, from) in self.from.iter().enumerate() {
                let at = at + (i * self.bytes) as u64;
                let operand = warp.regs[*from as usize][lane];
                let expected = self.expected.map(|reg| warp.regs[reg as usize][lane]);
                let new = |old: u64| match expected {
                    Some(expected) if expected != old => old,
                    _ => of_two(self.run, old, operand),
                };
                let mut old = [0; 8];
                match space {
                    Space::Shared => machine.shared.update(at, self.bytes, |bytes| {
                        old[..bytes.len()].copy_from_slice(bytes);
                        let new = new(u64::from_le_bytes(old)).to_le_bytes();
                        bytes.copy_from_slice(&new[..bytes.len()]);
                    })?,
                    Space::Global => {
                        machine.global.read(at, &mut old[..self.bytes])?;
                        let new = new(u64::from_le_bytes(old)).to_le_bytes();
                        machine.global.write(at, &new[..self.bytes])?;
                    }
                    other => return Err(format!("an atomic operation in {other:?}")),
                }
                if let Some(to) = &self.to {
                    warp.regs[to[i] as usize][lane] = u64::from_le_bytes(old);
                }
            }
        }
        Ok(())
    }
}
