//! `mbarrier`: barriers in shared memory (PTX ISA, "Parallel Synchronization and Communication Instructions").

use super::decode::{address, pair, reg};
use super::op::Address;
use crate::instructions::value::each;
use crate::machine::mbarrier::{Mbarrier as Object, What as Awaiting};
use crate::machine::warp::{Machine, Warp};
use crate::machine::window::Space;
use crate::text::{Argument, Reg};

#[derive(Debug)]
pub(crate) struct Mbarrier {
    at: Address,
    what: What,
}

#[derive(Debug)]
enum What {
    Init {
        threads: Reg,
    },
    /// Threads arrive and bytes are expected; the result, if requested, is the previous phase.
    Update {
        arrive: Option<Reg>,
        /// Number of threads that arrive if no operand specifies it.
        threads: i64,
        expect: Option<Reg>,
        to: Option<Reg>,
    },
    /// `cp.async.mbarrier.arrive`: each thread arrives when its copies complete. If `besides` is `true`, that arrival
    /// is added to the expected ones; otherwise (`.noinc`) it is one of them.
    AfterCopies {
        besides: bool,
    },
    /// Tests whether a phase has ended, given the phase that an arrival returned or a parity. A warp for which it has
    /// not ended lets others run.
    Wait {
        to: Option<Reg>,
        phase: Reg,
    },
    Nothing,
}

impl Mbarrier {
    pub(crate) fn of(parts: &[&str], arguments: &[Argument]) -> Option<Self> {
        let has = |part: &str| parts.contains(&part);
        let memory = |i: usize| address(arguments.get(i)?, Space::Shared);
        let optional = |i: usize| match arguments.get(i) {
            Some(argument) => reg(argument).map(Some),
            None => Some(None),
        };
        if parts[0] == "cp" {
            let what = What::AfterCopies { besides: !has("noinc") };
            return Some(Self { at: memory(0)?, what });
        }
        match *parts.get(1)? {
            "init" => {
                Some(Self { at: memory(0)?, what: What::Init { threads: reg(arguments.get(1)?)? } })
            }
            "inval" => Some(Self { at: memory(0)?, what: What::Nothing }),
            "expect_tx" => {
                let expect = Some(reg(arguments.get(1)?)?);
                let what = What::Update { arrive: None, threads: 0, expect, to: None };
                Some(Self { at: memory(0)?, what })
            }
            "arrive" if !has("noComplete") => {
                let to = pair(arguments.first()?)?[0];
                let (arrive, expect) =
                    if has("expect_tx") { (None, optional(2)?) } else { (optional(2)?, None) };
                Some(Self { at: memory(1)?, what: What::Update { arrive, threads: 1, expect, to } })
            }
            "test_wait" | "try_wait" => {
                let to = pair(arguments.first()?)?[0];
                Some(Self {
                    at: memory(1)?,
                    what: What::Wait { to, phase: reg(arguments.get(2)?)? },
                })
            }
            _ => None,
        }
    }

    /// Executes the instruction; returns `true` if other warps should run before this one continues.
    pub(crate) fn run(
        &self,
        warp: &mut Warp,
        machine: &mut Machine<'_>,
        active: u32,
    ) -> Result<bool, String> {
        let mut waits = false;
        for lane in each(active) {
            let at = match warp.locate(self.at, lane) {
                (Space::Shared, at) if at % 8 == 0 => at,
                (space, at) => return Err(format!("an mbarrier at {at:#x} of {space:?} memory")),
            };
            let value = |reg: &Reg| warp.regs[*reg as usize][lane] & 0xFFFF_FFFF;
            match &self.what {
                What::Init { threads } => {
                    let threads = value(threads);
                    machine.shared.has_mbarriers = true;
                    machine.shared.update_mbarrier(at, |_| Object::new(threads))?;
                }
                What::Update { arrive, threads, expect, to } => {
                    let arrive = arrive.as_ref().map_or(*threads, |reg| value(reg) as i64);
                    let expect = expect.as_ref().map_or(0, value) as i64;
                    let old = machine.shared.update_mbarrier(at, |b| b.update(arrive, expect))?;
                    if let Some(to) = to {
                        warp.regs[*to as usize][lane] = old.parity;
                    }
                }
                What::AfterCopies { besides } => {
                    machine.shared.update_mbarrier(at, |b| b.update(-i64::from(*besides), 0))?;
                    let copies = Awaiting::Copies(warp.id, warp.take_copies(lane));
                    machine.shared.await_at(at, copies);
                }
                What::Wait { to, phase } => {
                    let phase = value(phase);
                    machine.arrive(at)?;
                    let now = machine.shared.mbarrier(at)?;
                    let ended = now.parity != phase & 1;
                    waits |= !ended;
                    if let Some(to) = to {
                        warp.regs[*to as usize][lane] = ended.into();
                    }
                }
                What::Nothing => {}
            }
        }
        Ok(waits)
    }
}
