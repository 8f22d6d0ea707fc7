//! Decodes statements into operations; everything that does not depend on a launch is determined here.

use std::collections::HashMap;

use super::arithmetic::{self, comparison};
use super::atomic::Atomic;
use super::bulk::Bulk;
use super::convert::Convert;
use super::exchange::Exchange;
use super::fragment::Wmma;
use super::matrix::{LoadMatrix, Mma, StoreMatrix};
use super::mbarrier::Mbarrier;
use super::op::{Address, Instruction, Kernel, Op};
use super::wgmma::Wgmma;
use crate::machine::window::{LOCAL, SHARED, Space};
use crate::text::{Argument, Filled, Reg, Statement, Text, size_of};

/// Decodes a kernel; returns an error if an instruction is not emulated.
pub(crate) fn decode(name: &str, text: Text) -> Result<Kernel, String> {
    let constants: HashMap<Reg, u64> = text
        .filled
        .iter()
        .filter_map(|(reg, filled)| match filled {
            Filled::With(value) => Some((*reg, *value)),
            _ => None,
        })
        .collect();
    let decoder = Decoder { labels: &text.labels, constants: &constants };
    let decoded = text.statements.iter().map(|statement| {
        let op = decoder.op(statement).ok_or_else(|| {
            format!(
                "{name}, line {}: `{}` with {:?} is not emulated",
                statement.line, statement.opcode, statement.arguments
            )
        })?;
        let Statement { guard, line, .. } = *statement;
        Ok(Instruction { guard, op, opcode: statement.opcode.clone(), line })
    });
    let mut code = decoded.collect::<Result<Vec<_>, String>>()?;
    // A kernel may end without `ret`.
    code.push(Instruction { guard: None, op: Op::Exit, opcode: "ret".into(), line: 0 });
    let Text { parameters, filled, registers, shared, local, .. } = text;
    Ok(Kernel { name: name.to_string(), parameters, filled, registers, shared, local, code })
}

/// Tables in which the arguments of a statement are looked up.
pub(crate) struct Decoder<'a> {
    labels: &'a HashMap<String, usize>,
    constants: &'a HashMap<Reg, u64>,
}

pub(crate) fn reg(argument: &Argument) -> Option<Reg> {
    match argument {
        Argument::Reg(reg) => Some(*reg),
        _ => None,
    }
}

/// Returns a predicate register, and `true` if it is negated.
pub(crate) fn predicate(argument: &Argument) -> Option<(Reg, bool)> {
    match argument {
        Argument::Not(reg) => Some((*reg, true)),
        other => Some((reg(other)?, false)),
    }
}

/// Returns the registers of a list; a single register counts as a list.
pub(crate) fn list(argument: &Argument) -> Option<Vec<Reg>> {
    match argument {
        Argument::List(list) => list.iter().map(reg).collect(),
        other => Some(vec![reg(other)?]),
    }
}

/// Returns the registers of a list of results, `None` for discarded ones.
fn results(argument: &Argument) -> Option<Vec<Option<Reg>>> {
    let one = |argument: &Argument| match argument {
        Argument::Nothing => Some(None),
        other => reg(other).map(Some),
    };
    match argument {
        Argument::List(list) => list.iter().map(one).collect(),
        other => Some(vec![one(other)?]),
    }
}

/// Returns the registers of one or two results, `None` for discarded ones.
pub(crate) fn pair(argument: &Argument) -> Option<[Option<Reg>; 2]> {
    match argument {
        Argument::Reg(first) => Some([Some(*first), None]),
        Argument::Pair(first, second) => Some([*first, *second]),
        Argument::Nothing => Some([None, None]),
        _ => None,
    }
}

pub(crate) fn address(argument: &Argument, space: Space) -> Option<Address> {
    match argument {
        Argument::Address(base, offset) => Some(Address { space, base: *base, offset: *offset }),
        _ => None,
    }
}

impl Decoder<'_> {
    /// Returns the value of an operand that must be a constant.
    pub(crate) fn constant(&self, argument: &Argument) -> Option<u64> {
        self.constants.get(&reg(argument)?).copied()
    }

    fn op(&self, statement: &Statement) -> Option<Op> {
        let parts: Vec<&str> = statement.opcode.split('.').collect();
        let arguments = &statement.arguments[..];
        let ty = *parts.last()?;
        let has = |part: &str| parts.contains(&part);
        match parts[0] {
            "mov" if matches!(arguments, [_, Argument::List(_)]) => {
                let from = list(arguments.get(1)?)?;
                let bits = (size_of(ty)? as u32 * 8).checked_div(from.len() as u32)?;
                Some(Op::Pack { to: reg(arguments.first()?)?, from, bits })
            }
            "mov" if matches!(arguments, [Argument::List(_), _]) => {
                let to = results(arguments.first()?)?;
                let bits = (size_of(ty)? as u32 * 8).checked_div(to.len() as u32)?;
                Some(Op::Unpack { to, from: reg(arguments.get(1)?)?, bits })
            }
            "setp" => self.set(&parts, arguments),
            "cvt" => {
                let convert = Convert::of(&parts)?;
                let from = [reg(arguments.get(1)?)?, arguments.get(2).map_or(Some(0), reg)?];
                (convert.packed == (arguments.len() == 3)).then_some(Op::Convert {
                    convert,
                    to: reg(arguments.first()?)?,
                    from,
                })
            }
            "cvta" => {
                let window = match Space::of(&parts) {
                    Space::Shared => SHARED,
                    Space::Local => LOCAL,
                    _ => 0,
                };
                let by = if has("to") { window.wrapping_neg() } else { window };
                Some(Op::Move { to: reg(arguments.first()?)?, from: reg(arguments.get(1)?)?, by })
            }
            "ld" | "ldu" => Some(Op::Load {
                from: address(arguments.get(1)?, Space::of(&parts))?,
                to: results(arguments.first()?)?,
                bytes: size_of(ty).filter(|bytes| *bytes <= 8)?,
                signed: ty.starts_with('s'),
            }),
            "st" => Some(Op::Store {
                to: address(arguments.first()?, Space::of(&parts))?,
                from: list(arguments.get(1)?)?,
                bytes: size_of(ty).filter(|bytes| *bytes <= 8)?,
            }),
            "atom" | "red" => Atomic::of(&parts, arguments).map(Op::Atomic),
            "bra" => match arguments {
                [Argument::Label(label)] => self.labels.get(label).copied().map(Op::Branch),
                _ => None,
            },
            "ret" | "exit" => Some(Op::Exit),
            "trap" => Some(Op::Trap),
            "bar" | "barrier" if has("warp") => Some(Op::Fence),
            // Barriers of a subset of the threads, or with a number other than 0, are not emulated.
            "bar" | "barrier" if has("sync") && self.constant(arguments.first()?) == Some(0) => {
                (arguments.len() == 1).then_some(Op::Barrier)
            }
            "fence" if has("proxy") => Some(Op::ProxyFence),
            "fence" | "membar" | "griddepcontrol" | "prefetch" | "nanosleep" => Some(Op::Fence),
            "mbarrier" => Mbarrier::of(&parts, arguments).map(Op::Mbarrier),
            "cp" if has("async") => self.copy(&parts, arguments),
            "ldmatrix" => LoadMatrix::of(&parts, arguments).map(Op::LoadMatrix),
            "stmatrix" => StoreMatrix::of(&parts, arguments).map(Op::StoreMatrix),
            "mma" => Mma::of(&parts, arguments).map(|mma| Op::Mma(Box::new(mma))),
            "wmma" => Wmma::of(&parts, arguments).map(|wmma| Op::Wmma(Box::new(wmma))),
            "wgmma" if has("fence") => Some(Op::Fence),
            "wgmma" if has("commit_group") => Some(Op::WgmmaCommit),
            "wgmma" if has("wait_group") => {
                Some(Op::WgmmaWait(self.constant(arguments.first()?)? as usize))
            }
            "wgmma" => Wgmma::of(&parts, arguments, self).map(|wgmma| Op::Wgmma(Box::new(wgmma))),
            "shfl" | "vote" | "activemask" | "match" | "redux" | "elect" => {
                Exchange::of(&parts, arguments).map(Op::Exchange)
            }
            _ => {
                let run = arithmetic::find(&parts)?;
                let mut from = [0; 4];
                for (slot, argument) in from.iter_mut().zip(arguments.get(1..)?) {
                    *slot = reg(argument)?;
                }
                Some(Op::Alu { run, to: reg(arguments.first()?)?, from })
            }
        }
    }

    fn set(&self, parts: &[&str], arguments: &[Argument]) -> Option<Op> {
        let ty = parts.last()?;
        let join = match arguments.get(3) {
            None => None,
            Some(third) => {
                let join = parts.iter().find(|part| ["and", "or", "xor"].contains(part))?;
                let (third, negated) = predicate(third)?;
                Some((arithmetic::find(&[join, "pred"])?, third, negated))
            }
        };
        Some(Op::Set {
            compare: comparison(parts.get(1)?, ty)?,
            from: [reg(arguments.get(1)?)?, reg(arguments.get(2)?)?],
            join,
            to: pair(arguments.first()?)?,
        })
    }

    fn copy(&self, parts: &[&str], arguments: &[Argument]) -> Option<Op> {
        if parts.contains(&"bulk") {
            // Stores complete immediately.
            let group = parts.contains(&"commit_group") || parts.contains(&"wait_group");
            return if group { Some(Op::Fence) } else { Bulk::of(parts, arguments).map(Op::Bulk) };
        }
        if parts.contains(&"commit_group") {
            return Some(Op::CopyCommit);
        }
        if parts.contains(&"wait_group") {
            return Some(Op::CopyWait(self.constant(arguments.first()?)? as usize));
        }
        if parts.contains(&"wait_all") {
            return Some(Op::CopyWait(0));
        }
        if parts.contains(&"mbarrier") {
            return Mbarrier::of(parts, arguments).map(Op::Mbarrier);
        }
        Some(Op::Copy {
            to: address(arguments.first()?, Space::Shared)?,
            from: address(arguments.get(1)?, Space::Global)?,
            bytes: self.constant(arguments.get(2)?)? as usize,
            read: match arguments.get(3) {
                Some(read) => Some(reg(read)?),
                None => None,
            },
        })
    }
}

/// Returns the tile of a matrix instruction: `m16n8k16` is `[16, 8, 16]`.
pub(crate) fn tile(parts: &[&str]) -> Option<[usize; 3]> {
    parts.iter().find_map(|part| {
        let (m, rest) = part.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
    })
}

/// Returns how many matrices `ldmatrix` or `stmatrix` moves: `x4` is 4.
pub(crate) fn matrices(parts: &[&str]) -> Option<usize> {
    parts.iter().find_map(|part| part.strip_prefix('x')?.parse().ok())
}
