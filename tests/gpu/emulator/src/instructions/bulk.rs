//! `cp.async.bulk`: copies of contiguous memory or of boxes of tensors, which one thread starts and whose completion an
//! `mbarrier` tracks. Copies out of shared memory complete immediately.

use super::decode::{address, reg};
use super::op::Address;
use crate::instructions::value::each;
use crate::machine::mbarrier::What;
use crate::machine::tensor_map::TensorMap;
use crate::machine::warp::{Machine, Warp};
use crate::machine::window::Space;
use crate::text::{Argument, Reg};

#[derive(Debug)]
pub(crate) enum Bulk {
    /// Copies contiguous bytes from global to shared memory.
    Copy { to: Address, from: Address, bytes: Reg, mbarrier: Address },
    /// Copies a box of a tensor to shared memory.
    Load { to: Address, map: Address, at: Vec<Reg>, mbarrier: Address },
    /// Copies a box of a tensor from shared memory.
    Store { map: Address, at: Vec<Reg>, from: Address },
}

impl Bulk {
    pub(crate) fn of(parts: &[&str], arguments: &[Argument]) -> Option<Self> {
        let has = |part: &str| parts.contains(&part);
        let tensor = |argument: &Argument| match argument {
            Argument::Tensor(base, offset, at) => {
                let map = Address { space: Space::Generic, base: *base, offset: *offset };
                Some((map, at.iter().map(reg).collect::<Option<Vec<Reg>>>()?))
            }
            _ => None,
        };
        if has("multicast::cluster") || has("im2col") {
            return None;
        }
        match arguments {
            [to, from, mbarrier] if has("tensor") && has("mbarrier::complete_tx::bytes") => {
                let (map, at) = tensor(from)?;
                let [to, mbarrier] =
                    [to, mbarrier].map(|argument| address(argument, Space::Shared));
                Some(Self::Load { to: to?, map, at, mbarrier: mbarrier? })
            }
            [to, from] if has("tensor") && has("bulk_group") => {
                let (map, at) = tensor(to)?;
                Some(Self::Store { map, at, from: address(from, Space::Shared)? })
            }
            [to, from, bytes, mbarrier] if has("mbarrier::complete_tx::bytes") => {
                Some(Self::Copy {
                    to: address(to, Space::Shared)?,
                    from: address(from, Space::Global)?,
                    bytes: reg(bytes)?,
                    mbarrier: address(mbarrier, Space::Shared)?,
                })
            }
            _ => None,
        }
    }

    pub(crate) fn run(
        &self,
        warp: &mut Warp,
        machine: &mut Machine<'_>,
        active: u32,
    ) -> Result<(), String> {
        for lane in each(active) {
            let of = |reg: &Reg| warp.regs[*reg as usize][lane];
            let place = |address: &Address| warp.locate(*address, lane).1;
            let coordinates =
                |at: &[Reg]| at.iter().map(|reg| of(reg) as i32).collect::<Vec<i32>>();
            match self {
                Self::Copy { to, from, bytes, mbarrier } => {
                    let (to, from, bytes) = (place(to), place(from), of(bytes) as u32 as usize);
                    if to % 16 != 0 || from % 16 != 0 || bytes % 16 != 0 {
                        return Err(format!("{bytes} bytes from {from:#x} to {to:#x}"));
                    }
                    machine.shared.begin_copy(warp.id, to, bytes)?;
                    let what = What::Linear { to, from, bytes };
                    machine.shared.await_at(place(mbarrier), what);
                }
                Self::Load { to, map, at, mbarrier } => {
                    let map = tensor_map(warp, machine, *map, lane)?;
                    let to = place(to);
                    machine.shared.begin_copy(warp.id, to, map.bytes())?;
                    let what = What::Tile { to, map, at: coordinates(at) };
                    machine.shared.await_at(place(mbarrier), what);
                }
                Self::Store { map, at, from } => {
                    let map = tensor_map(warp, machine, *map, lane)?;
                    let (at, from) = (coordinates(at), place(from));
                    map.store(&at, machine.shared, from, warp.id, machine.global)?;
                }
            }
        }
        Ok(())
    }
}

fn tensor_map(
    warp: &Warp,
    machine: &mut Machine<'_>,
    at: Address,
    lane: usize,
) -> Result<TensorMap, String> {
    let (space, at) = warp.locate(at, lane);
    let mut bytes = [0; 128];
    machine.read(warp.id, space, at, &mut bytes)?;
    TensorMap::of(&bytes)
}
