//! Loads, stores and asynchronous copies.

use super::mbarrier::{Awaited, What};
use super::warp::{Copy, Machine, Warp};
use super::window::Space;
use crate::instructions::Address;
use crate::instructions::value::{LANES, each};
use crate::text::Reg;

impl Machine<'_> {
    /// Reads memory that all threads can read.
    pub(crate) fn read(
        &mut self,
        warp: u16,
        space: Space,
        at: u64,
        to: &mut [u8],
    ) -> Result<(), String> {
        match space {
            Space::Shared => self.shared.read(warp, at, to),
            Space::Param => {
                let from = self.parameters.get(at as usize..at as usize + to.len());
                to.copy_from_slice(from.ok_or("no such parameter")?);
                Ok(())
            }
            _ => self.global.read(at, to),
        }
    }

    /// Writes memory that all threads can write.
    pub(crate) fn write(
        &mut self,
        warp: u16,
        space: Space,
        at: u64,
        from: &[u8],
    ) -> Result<(), String> {
        match space {
            Space::Shared => self.shared.write(warp, at, from),
            Space::Param => Err("parameters are not written".into()),
            _ => self.global.write(at, from),
        }
    }

    /// Completes the copies tracked by the `mbarrier` at `at`, as late as permitted: when a thread tests it.
    pub(crate) fn arrive(&mut self, at: u64) -> Result<(), String> {
        let (arrived, others): (Vec<Awaited>, _) = std::mem::take(&mut self.shared.awaited)
            .into_iter()
            .partition(|awaited| awaited.mbarrier == at);
        self.shared.awaited = others;
        for Awaited { what, .. } in arrived {
            let (threads, bytes) = match what {
                What::Linear { to, from, bytes } => {
                    let mut read = vec![0; bytes];
                    self.global.read(from, &mut read)?;
                    self.shared.end_bulk(to, &read)?;
                    (0, bytes)
                }
                What::Tile { to, map, at } => {
                    map.load(&at, self.shared, to, self.global)?;
                    (0, map.bytes())
                }
                What::Copies(warp, copies) => {
                    for copy in copies {
                        self.end_copy(warp, &copy)?;
                    }
                    (1, 0)
                }
            };
            self.shared.update_mbarrier(at, |it| it.update(threads, -(bytes as i64)))?;
        }
        Ok(())
    }

    /// Completes a thread's `cp.async`.
    pub(super) fn end_copy(&mut self, warp: u16, copy: &Copy) -> Result<(), String> {
        let mut bytes = [0; 16];
        self.global.read(copy.from, &mut bytes[..copy.read])?;
        self.shared.end_copy(warp, copy.to, &bytes[..copy.bytes])
    }
}

impl Warp {
    pub(super) fn load(
        &mut self,
        from: Address,
        to: &[Option<Reg>],
        bytes: usize,
        signed: bool,
        active: u32,
        machine: &mut Machine<'_>,
    ) -> Result<(), String> {
        let all = bytes * to.len();
        self.count(from, all, active, machine);
        for lane in each(active) {
            let (space, at) = self.locate(from, lane);
            aligned(at, all)?;
            let mut read = [0; 32];
            let read = &mut read[..all];
            match space {
                Space::Local => read.copy_from_slice(self.local(lane, at, all)?),
                _ => machine.read(self.id, space, at, read)?,
            }
            for (to, part) in to.iter().zip(read.chunks_exact(bytes)) {
                let mut word = [0; 8];
                word[..bytes].copy_from_slice(part);
                let mut value = u64::from_le_bytes(word);
                if signed && bytes < 4 {
                    let unused = 64 - 8 * bytes as u32;
                    value = u64::from(((value << unused) as i64 >> unused) as u32);
                }
                if let Some(to) = to {
                    self.regs[*to as usize][lane] = value;
                }
            }
        }
        Ok(())
    }

    pub(super) fn store(
        &mut self,
        to: Address,
        from: &[Reg],
        bytes: usize,
        active: u32,
        machine: &mut Machine<'_>,
    ) -> Result<(), String> {
        let all = bytes * from.len();
        self.count(to, all, active, machine);
        for lane in each(active) {
            let (space, at) = self.locate(to, lane);
            aligned(at, all)?;
            let mut written = [0; 32];
            for (part, from) in written.chunks_exact_mut(bytes).zip(from) {
                part.copy_from_slice(&self.regs[*from as usize][lane].to_le_bytes()[..bytes]);
            }
            let written = &written[..all];
            match space {
                Space::Local => self.local(lane, at, all)?.copy_from_slice(written),
                _ => machine.write(self.id, space, at, written)?,
            }
        }
        Ok(())
    }

    pub(super) fn copy(
        &mut self,
        [to, from]: [Address; 2],
        bytes: usize,
        read: Option<Reg>,
        active: u32,
        machine: &mut Machine<'_>,
    ) -> Result<(), String> {
        self.count(to, bytes, active, machine);
        self.count(from, bytes, active, machine);
        for lane in each(active) {
            let ((_, to), (_, from)) = (self.locate(to, lane), self.locate(from, lane));
            aligned(to, bytes)?;
            let read = read.map_or(bytes, |reg| self.regs[reg as usize][lane] as u32 as usize);
            // A copy that reads nothing may have any source address.
            aligned(if read > 0 { from } else { 0 }, bytes)?;
            if read > bytes {
                return Err(format!("{read} bytes into {bytes}"));
            }
            machine.shared.begin_copy(self.id, to, bytes)?;
            self.copies.push(Copy { lane, to, from, bytes, read });
        }
        Ok(())
    }

    /// Removes and returns the copies that a lane has started but not waited for.
    pub(crate) fn take_copies(&mut self, lane: usize) -> Vec<Copy> {
        let lists = self.copy_groups.iter_mut().chain(std::iter::once(&mut self.copies));
        lists.flat_map(|list| list.extract_if(.., |copy| copy.lane == lane)).collect()
    }

    /// Counts the wavefronts or sectors that an access of the active lanes takes.
    pub(crate) fn count(&self, at: Address, bytes: usize, active: u32, machine: &mut Machine<'_>) {
        let Some(counts) = &mut machine.counts else { return };
        let lanes = each(active);
        let (spaces, addresses): (Vec<Space>, Vec<u64>) =
            lanes.map(|lane| self.locate(at, lane)).unzip();
        match spaces.first() {
            Some(Space::Shared) => counts.shared(&addresses, bytes),
            Some(Space::Global) => counts.global(&addresses, bytes),
            _ => {}
        }
    }

    /// Returns `len` bytes of a lane's local memory from `at` on.
    fn local(&mut self, lane: usize, at: u64, len: usize) -> Result<&mut [u8], String> {
        let each = self.local.len() / LANES;
        let range = usize::try_from(at).ok().filter(|at| at.saturating_add(len) <= each);
        let from =
            range.ok_or_else(|| format!("{len} bytes of local memory at {at}: it has {each}"))?;
        Ok(&mut self.local[lane * each + from..][..len])
    }
}

fn aligned(at: u64, bytes: usize) -> Result<(), String> {
    match at % bytes as u64 {
        0 => Ok(()),
        _ => Err(format!("{bytes} bytes at {at:#x}, which is no multiple of them")),
    }
}
