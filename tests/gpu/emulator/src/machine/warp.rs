//! A warp: its registers, the position of its lanes in the code, and the control flow between instructions.

use std::collections::VecDeque;

use crate::instructions::value::{LANES, Lanes};
use crate::instructions::wgmma::Issued;
use crate::instructions::{Address, Instruction, Kernel, Op};
use crate::machine::counts::Counts;
use crate::machine::global::Global;
use crate::machine::shared::Shared;
use crate::machine::window::Space;
use crate::text::Reg;

/// State shared by the warps of a block.
pub(crate) struct Machine<'a> {
    pub kernel: &'a Kernel,
    pub global: &'a Global,
    pub parameters: &'a [u8],
    pub shared: &'a mut Shared,
    /// Number of writes to shared memory when each warp passed its last proxy fence.
    pub fences: &'a mut [u32],
    /// Counters, if requested.
    pub counts: Option<&'a mut Counts>,
}

/// Lanes that continue at the same instruction.
#[derive(Debug, Clone, Copy)]
struct Path {
    next: usize,
    lanes: u32,
}

/// Reason why a warp pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// All its lanes have exited.
    Ended,
    /// It waits for the other warps at a barrier.
    AtBarrier,
    /// Its turn is over.
    Turn,
}

/// An asynchronous copy of one lane.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(super) lane: usize,
    pub(super) to: u64,
    pub(super) from: u64,
    pub(super) bytes: usize,
    pub(super) read: usize,
}

#[derive(Debug)]
pub(crate) struct Warp {
    pub id: u16,
    pub regs: Vec<Lanes>,
    path: Path,
    /// Paths of lanes that have branched elsewhere. The lowest instruction runs first, so that the paths reconverge.
    others: Vec<Path>,
    /// `true` if it has tested an `mbarrier` whose phase had not ended.
    pub(super) waits: bool,
    pub(super) local: Vec<u8>,
    /// Copies not yet in a group, and committed groups in flight.
    pub(super) copies: Vec<Copy>,
    pub(super) copy_groups: VecDeque<Vec<Copy>>,
    pub(super) products: Vec<Issued>,
    pub(super) product_groups: VecDeque<Vec<Issued>>,
}

/// Instructions per turn, limited because a warp that spins on another must let it run.
const TURN: usize = 1 << 16;

impl Warp {
    pub(crate) fn new(id: u16, kernel: &Kernel, lanes: u32) -> Self {
        Self {
            id,
            regs: vec![[0; LANES]; kernel.registers],
            path: Path { next: 0, lanes },
            others: Vec::new(),
            waits: false,
            local: vec![0xFF; kernel.local * LANES],
            copies: Vec::new(),
            copy_groups: VecDeque::new(),
            products: Vec::new(),
            product_groups: VecDeque::new(),
        }
    }

    /// Writes a register in the active lanes.
    pub(crate) fn set(&mut self, reg: Reg, lanes: &Lanes, active: u32) {
        let to = &mut self.regs[reg as usize];
        if active == u32::MAX {
            *to = *lanes;
            return;
        }
        for lane in 0..LANES {
            if active >> lane & 1 == 1 {
                to[lane] = lanes[lane];
            }
        }
    }

    pub(crate) fn set_if(&mut self, reg: Option<Reg>, lanes: &Lanes, active: u32) {
        if let Some(reg) = reg {
            self.set(reg, lanes, active);
        }
    }

    /// Resolves `address` in a lane to a space and an address in it.
    pub(crate) fn locate(&self, address: Address, lane: usize) -> (Space, u64) {
        let at = self.regs[address.base as usize][lane].wrapping_add_signed(address.offset);
        // Addresses in shared memory may be computed in 32 bits.
        address.space.find(if address.space == Space::Shared { at & 0xFFFF_FFFF } else { at })
    }

    /// Returns the address in shared memory of a 16-byte matrix row.
    pub(crate) fn shared_row(&self, address: Address, lane: usize) -> Result<u64, String> {
        match self.locate(address, lane) {
            (Space::Shared, at) if at % 16 == 0 => Ok(at),
            (space, at) => Err(format!("lane {lane}: a matrix row at {at:#x} of {space:?} memory")),
        }
    }

    /// Runs until the warp must stop or its turn is over.
    pub(crate) fn run(&mut self, machine: &mut Machine<'_>) -> Result<Stop, String> {
        for _ in 0..TURN {
            if self.path.lanes == 0 {
                let Some(lowest) = (0..self.others.len()).min_by_key(|i| self.others[*i].next)
                else {
                    return Ok(Stop::Ended);
                };
                self.path = self.others.swap_remove(lowest);
            }
            self.meet();
            let kernel = machine.kernel;
            if let Some(counts) = &mut machine.counts {
                counts.instructions += 1;
            }
            let instruction = &kernel.code[self.path.next];
            let stopped = self.step(instruction, machine).map_err(|error| {
                let Instruction { opcode, line, .. } = instruction;
                format!("{}, line {line}, {opcode}: {error}", kernel.name)
            })?;
            if let Some(stop) = stopped {
                return Ok(stop);
            }
        }
        Ok(Stop::Turn)
    }

    /// Merges paths at the same instruction and switches to the path at the lowest instruction.
    fn meet(&mut self) {
        let mut i = 0;
        while i < self.others.len() {
            if self.others[i].next == self.path.next {
                self.path.lanes |= self.others.swap_remove(i).lanes;
            } else {
                if self.others[i].next < self.path.next {
                    std::mem::swap(&mut self.others[i], &mut self.path);
                    i = 0;
                    continue;
                }
                i += 1;
            }
        }
    }

    /// Checks that no lane is elsewhere, as instructions that a warp executes as a whole require.
    pub(super) fn together(&self, active: u32) -> Result<(), String> {
        match self.others.is_empty() && active == self.path.lanes {
            true => Ok(()),
            false => Err("a part of the warp is elsewhere".into()),
        }
    }

    fn step(
        &mut self,
        instruction: &Instruction,
        machine: &mut Machine<'_>,
    ) -> Result<Option<Stop>, String> {
        let mut active = self.path.lanes;
        if let Some((reg, expected)) = instruction.guard {
            for (lane, guard) in self.regs[reg as usize].iter().enumerate() {
                if (guard & 1 == 1) != expected {
                    active &= !(1 << lane);
                }
            }
        }
        let next = self.path.next + 1;
        match &instruction.op {
            Op::Branch(target) => {
                let stay = self.path.lanes & !active;
                if stay == 0 {
                    self.path.next = *target;
                } else {
                    if active != 0 {
                        self.others.push(Path { next: *target, lanes: active });
                    }
                    self.path = Path { next, lanes: stay };
                }
                return Ok(None);
            }
            Op::Exit => {
                self.path = Path { next, lanes: self.path.lanes & !active };
                return Ok(None);
            }
            Op::Barrier if active != 0 => {
                self.together(active)?;
                self.path.next = next;
                return Ok(Some(Stop::AtBarrier));
            }
            op => {
                if active != 0 {
                    self.execute(op, active, machine)?;
                }
            }
        }
        self.path.next = next;
        // Lets other warps run so that the phase can end.
        Ok(std::mem::take(&mut self.waits).then_some(Stop::Turn))
    }
}

/// Checks that all lanes are active, as matrix instructions require.
pub(crate) fn whole(active: u32) -> Result<(), String> {
    match active {
        u32::MAX => Ok(()),
        _ => Err(format!("only lanes {active:#034b} of the warp take part")),
    }
}
