//! Executes the instructions that do not affect a warp's control flow.

use super::warp::{Machine, Warp, whole};
use crate::instructions::Op;
use crate::instructions::value::{LANES, Lanes};

impl Warp {
    pub(super) fn execute(
        &mut self,
        op: &Op,
        active: u32,
        machine: &mut Machine<'_>,
    ) -> Result<(), String> {
        match op {
            Op::Alu { run, to, from } => {
                let [a, b, c, d] = from.map(|reg| &self.regs[reg as usize]);
                let result = run(a, b, c, d);
                self.set(*to, &result, active);
            }
            Op::Set { compare, from, join, to } => {
                let [a, b] = from.map(|reg| &self.regs[reg as usize]);
                let holds = compare(a, b, a, a);
                let joined = |holds: &Lanes| match join {
                    None => *holds,
                    Some((run, third, negated)) => {
                        let third =
                            self.regs[*third as usize].map(|bit| (bit & 1) ^ u64::from(*negated));
                        run(holds, &third, holds, holds)
                    }
                };
                let (yes, no) = (joined(&holds), joined(&holds.map(|bit| bit ^ 1)));
                self.set_if(to[0], &yes, active);
                self.set_if(to[1], &no, active);
            }
            Op::Convert { convert, to, from } => {
                let [a, b] = from.map(|reg| &self.regs[reg as usize]);
                let result: Lanes = match convert.packed {
                    // The first source becomes the upper half.
                    true => {
                        std::array::from_fn(|i| convert.apply(a[i]) << 16 | convert.apply(b[i]))
                    }
                    false => a.map(|bits| convert.apply(bits)),
                };
                self.set(*to, &result, active);
            }
            Op::Move { to, from, by } => {
                let result = self.regs[*from as usize].map(|address| address.wrapping_add(*by));
                self.set(*to, &result, active);
            }
            Op::Pack { to, from, bits } => {
                let mask = u64::MAX >> (64 - bits);
                let mut result = [0; LANES];
                for (i, from) in from.iter().enumerate() {
                    for (to, part) in result.iter_mut().zip(&self.regs[*from as usize]) {
                        *to |= (part & mask) << (i as u32 * bits);
                    }
                }
                self.set(*to, &result, active);
            }
            Op::Unpack { to, from, bits } => {
                let whole = self.regs[*from as usize];
                let mask = u64::MAX >> (64 - bits);
                for (i, to) in to.iter().enumerate() {
                    self.set_if(*to, &whole.map(|x| x >> (i as u32 * bits) & mask), active);
                }
            }
            Op::Load { from, to, bytes, signed } => {
                self.load(*from, to, *bytes, *signed, active, machine)?
            }
            Op::Store { to, from, bytes } => self.store(*to, from, *bytes, active, machine)?,
            Op::Atomic(atomic) => atomic.run(self, machine, active)?,
            Op::Trap => return Err("the kernel gives up".into()),
            Op::Fence => {}
            Op::ProxyFence => machine.fences[usize::from(self.id)] = machine.shared.writes,
            Op::Copy { to, from, bytes, read } => {
                self.copy([*to, *from], *bytes, *read, active, machine)?
            }
            Op::CopyCommit => {
                self.together(active)?;
                self.copy_groups.push_back(std::mem::take(&mut self.copies));
            }
            Op::CopyWait(pending) => {
                self.together(active)?;
                while self.copy_groups.len() > *pending {
                    for copy in self.copy_groups.pop_front().into_iter().flatten() {
                        machine.end_copy(self.id, &copy)?;
                    }
                }
            }
            Op::Bulk(bulk) => bulk.run(self, machine, active)?,
            Op::Mbarrier(mbarrier) => self.waits = mbarrier.run(self, machine, active)?,
            Op::Exchange(exchange) => exchange.run(self, active),
            Op::LoadMatrix(load) => {
                whole(active)?;
                load.run(self, machine)?;
            }
            Op::StoreMatrix(store) => {
                whole(active)?;
                store.run(self, machine)?;
            }
            Op::Mma(mma) => {
                whole(active)?;
                mma.run(self, machine);
            }
            Op::Wmma(wmma) => {
                wmma.run(self, machine, active)?;
            }
            Op::Wgmma(wgmma) => {
                whole(active)?;
                let issued = wgmma.issue(self)?;
                self.products.push(issued);
            }
            Op::WgmmaCommit => self.product_groups.push_back(std::mem::take(&mut self.products)),
            Op::WgmmaWait(pending) => {
                while self.product_groups.len() > *pending {
                    for product in self.product_groups.pop_front().into_iter().flatten() {
                        product.run(self, machine)?;
                    }
                }
            }
            Op::Branch(_) | Op::Exit | Op::Barrier => {
                unreachable!("where a warp goes on is `step`'s")
            }
        }
        Ok(())
    }
}
